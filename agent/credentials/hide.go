package credentials

import "fmt"

// What holds secrets shows its name and nothing else, whatever the verb: fmt does not ask the methods of what is in an
// unexported field, so that cri.Credential cannot hide itself in there.
var (
	_ fmt.Formatter = (*Keychain)(nil)
	_ fmt.Formatter = (*Plugin)(nil)
	_ fmt.Formatter = (*ECR)(nil)
)

// Format implements fmt.Formatter.
func (*Keychain) Format(s fmt.State, _ rune) { fmt.Fprint(s, "keychain") }

// Format implements fmt.Formatter.
func (p *Plugin) Format(s fmt.State, _ rune) { fmt.Fprint(s, p.Name()) }

// Format implements fmt.Formatter.
func (e *ECR) Format(s fmt.State, _ rune) { fmt.Fprint(s, e.Name()) }
