package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/agent/credentials"
)

// credentialFlags say where credentials for registries are.
type credentialFlags struct {
	secrets                 []string
	providers, providersDir string
}

func (f *credentialFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secrets, "pull-secret", nil, "file with credentials as docker login writes them, such as a mounted image pull secret\n(may be given several times)")
	flags.StringVar(&f.providers, "image-credential-provider-config", "", "the kubelet's file of that flag, for its credential providers")
	flags.StringVar(&f.providersDir, "image-credential-provider-bin-dir", "", "folder with the programs of the credential providers")
}

// keychain puts the sources into their order: secrets, the kubelet's providers, Amazon ECR, nothing.
func (f *credentialFlags) keychain(getenv func(string) string, log *slog.Logger) (*credentials.Keychain, error) {
	if (f.providers == "") != (f.providersDir == "") {
		return nil, &exitError{code: exitUsage, err: errors.New(
			"--image-credential-provider-config and --image-credential-provider-bin-dir go together: give both, as the kubelet has them")}
	}
	var sources []credentials.Source
	for _, path := range f.secrets {
		sources = append(sources, credentials.NewSecret(path))
	}
	if f.providers != "" {
		plugins, err := credentials.NewPlugins(f.providers, f.providersDir, log)
		if err != nil {
			return nil, err
		}
		sources = append(sources, plugins...)
	}
	return credentials.NewKeychain(log, append(sources, credentials.NewECR(getenv))...), nil
}
