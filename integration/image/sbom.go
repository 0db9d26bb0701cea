package image

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

// SBOMMediaType is that of a list of what an image is made of.
const SBOMMediaType = "application/spdx+json"

// The parts of an SPDX 2.3 document that are needed here (spdx.github.io/spdx-spec/v2.3).
type (
	spdx struct {
		SPDXVersion       string         `json:"spdxVersion"`
		DataLicense       string         `json:"dataLicense"`
		SPDXID            string         `json:"SPDXID"`
		Name              string         `json:"name"`
		DocumentNamespace string         `json:"documentNamespace"`
		CreationInfo      creationInfo   `json:"creationInfo"`
		Packages          []spdxPackage  `json:"packages"`
		Relationships     []relationship `json:"relationships"`
	}
	creationInfo struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string        `json:"SPDXID"`
		Name             string        `json:"name"`
		VersionInfo      string        `json:"versionInfo"`
		DownloadLocation string        `json:"downloadLocation"`
		FilesAnalyzed    bool          `json:"filesAnalyzed"`
		ExternalRefs     []externalRef `json:"externalRefs,omitempty"`
	}
	externalRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// SBOM lists the Go modules that a binary is made of, as the binary itself tells, in SPDX's JSON.
func SBOM(file string, o Options) ([]byte, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("what %s is made of: %w", file, err)
	}
	doc := spdx{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "prewarm " + o.Version, Packages: nil, Relationships: nil,
		CreationInfo: creationInfo{Created: o.Created.Format(time.RFC3339), Creators: []string{"Tool: prewarm make image"}},
	}
	main := info.Main
	main.Version = o.Version
	modules := append([]*debug.Module{&main, {Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	for i, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		id := fmt.Sprintf("SPDXRef-%d", i)
		doc.Packages = append(doc.Packages, spdxPackage{
			SPDXID: id, Name: m.Path, VersionInfo: m.Version, DownloadLocation: "NOASSERTION", FilesAnalyzed: false,
			ExternalRefs: []externalRef{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: "pkg:golang/" + m.Path + "@" + m.Version}},
		})
		relation := relationship{Element: "SPDXRef-0", Type: "DEPENDS_ON", Related: id}
		if i == 0 {
			relation = relationship{Element: doc.SPDXID, Type: "DESCRIBES", Related: id}
		}
		doc.Relationships = append(doc.Relationships, relation)
	}
	text, err := json.Marshal(doc.Packages)
	if err != nil {
		return nil, fmt.Errorf("SBOM: %w", err)
	}
	doc.DocumentNamespace = Source + "/sbom/" + digest.FromBytes(text).Encoded()
	if text, err = json.MarshalIndent(doc, "", " "); err != nil {
		return nil, fmt.Errorf("SBOM: %w", err)
	}
	return append(text, '\n'), nil
}
