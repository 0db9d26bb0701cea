package credentials

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// What a kubelet's file with credential providers must say that it is (kubelet.config.k8s.io/v1, CredentialProviderConfig),
// and the protocol that providers speak.
const (
	configAPIVersion = "kubelet.config.k8s.io/v1"
	configKind       = "CredentialProviderConfig"
	pluginAPIVersion = "credentialprovider.kubelet.k8s.io/v1"
)

// pluginConfig is the file.
type pluginConfig struct {
	APIVersion string          `yaml:"apiVersion"`
	Kind       string          `yaml:"kind"`
	Providers  []pluginOptions `yaml:"providers"`
}

// pluginOptions is one provider of it.
type pluginOptions struct {
	Name                 string   `yaml:"name"`
	MatchImages          []string `yaml:"matchImages"`
	DefaultCacheDuration string   `yaml:"defaultCacheDuration"`
	APIVersion           string   `yaml:"apiVersion"`
	Args                 []string `yaml:"args"`
	Env                  []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	TokenAttributes any `yaml:"tokenAttributes"`
}

// NewPlugins reads the file that the kubelet gets with --image-credential-provider-config, and finds the providers in
// binDir, as --image-credential-provider-bin-dir. One that cannot be used is logged and left out, so that the others
// work; the error is that the file itself cannot be used.
func NewPlugins(configFile, binDir string, log *slog.Logger) ([]Source, error) {
	data, err := os.ReadFile(filepath.Clean(configFile))
	if err != nil {
		return nil, fmt.Errorf("credential providers: %w", err)
	}
	var c pluginConfig
	if err := decodeStrictly(data, &c); err != nil {
		return nil, fmt.Errorf("credential providers: %s: %w", configFile, err)
	}
	if c.APIVersion != configAPIVersion || c.Kind != configKind {
		return nil, fmt.Errorf("credential providers: %s: apiVersion %q and kind %q: only %s %s is known", configFile, c.APIVersion, c.Kind, configAPIVersion, configKind)
	}
	var sources []Source
	names := map[string]bool{}
	for i, o := range c.Providers {
		p, err := newPlugin(o, binDir)
		if err == nil && names[o.Name] {
			err = fmt.Errorf("name %q is given twice: the first one counts", o.Name)
		}
		names[o.Name] = true
		if err != nil {
			log.Warn("a credential provider is left out", "file", configFile, "provider", i, "name", o.Name, "error", err)
			continue
		}
		sources = append(sources, p)
	}
	return sources, nil
}

func decodeStrictly(data []byte, to any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	err := d.Decode(to)
	if errors.Is(err, io.EOF) {
		return errors.New("is empty")
	}
	return err
}

// newPlugin checks a provider's options and finds its program.
func newPlugin(o pluginOptions, binDir string) (*Plugin, error) {
	switch {
	case o.Name == "" || o.Name != filepath.Base(o.Name) || o.Name == "." || o.Name == ".." || strings.ContainsAny(o.Name, " \t\n"):
		return nil, fmt.Errorf("name %q is not a plain file name: write that of a program in %s", o.Name, binDir)
	case o.APIVersion != pluginAPIVersion:
		return nil, fmt.Errorf("apiVersion %q is not one that is spoken here: only %s is", o.APIVersion, pluginAPIVersion)
	case o.TokenAttributes != nil:
		return nil, errors.New("tokenAttributes asks for the token of a pod's service account, and there is no pod here: give this registry another provider or a secret")
	case len(o.MatchImages) == 0:
		return nil, errors.New("matchImages is empty: name the registries it is for")
	}
	p := &Plugin{name: o.Name, path: filepath.Join(binDir, o.Name), args: o.Args, timeout: pluginTimeout, cache: map[string]cachedAnswer{}, failures: map[string]failure{}}
	for _, m := range o.MatchImages {
		pattern, ok := parsePattern(m)
		if !ok {
			return nil, fmt.Errorf("matchImages %q is not a registry", m)
		}
		p.images = append(p.images, pattern)
	}
	var err error
	if p.keep, err = time.ParseDuration(o.DefaultCacheDuration); err != nil || p.keep < 0 {
		return nil, fmt.Errorf("defaultCacheDuration %q is not a duration such as 12h", o.DefaultCacheDuration)
	}
	info, err := os.Stat(p.path)
	if err != nil {
		return nil, fmt.Errorf("name %q: put the program into the folder of --image-credential-provider-bin-dir: %w", o.Name, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("name %q: %s is no program: make it executable", o.Name, p.path)
	}
	p.env = os.Environ()
	for _, e := range o.Env {
		if e.Name == "" || strings.Contains(e.Name, "=") {
			return nil, fmt.Errorf("env %q is not a name of a variable", e.Name)
		}
		p.env = append(p.env, e.Name+"="+e.Value)
	}
	return p, nil
}
