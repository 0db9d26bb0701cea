package node

// Permission is something that the agent's account must be allowed to do.
type Permission struct {
	Verb string
	// Group is the API group; empty for the core. Resource has its subresource behind a slash.
	Group, Resource string
	// Namespace is the one in which it is needed: that of the placeholder pods, or default, where events about Nodes are; empty
	// for a Node, which has none.
	Namespace PermissionScope
	// For says what the agent cannot do without it.
	For string
}

// PermissionScope is where a permission is needed.
type PermissionScope string

// The scopes.
const (
	ScopeCluster      PermissionScope = ""
	ScopePlaceholders PermissionScope = "placeholders"
	ScopeEvents       PermissionScope = eventNamespace
)

// Permissions lists all that the agent asks of the API server, but for what --kubelet-configz needs.
func Permissions() []Permission {
	const events = "events.k8s.io"
	return []Permission{
		{"get", "", "nodes", ScopeCluster, "to see the Node at the start, and after a conflict"},
		{"watch", "", "nodes", ScopeCluster, "to see what decides which images it needs, and that somebody undid what was written"},
		{"patch", "", "nodes", ScopeCluster, "to write the labels, and to take the startup taint off"},
		{"patch", "", "nodes/status", ScopeCluster, "to write the condition"},
		{"watch", "", "pods", ScopePlaceholders, "to see the placeholder pods of its Node"},
		{"patch", "", "pods", ScopePlaceholders, "to write their label `prewarm.dev/warm`"},
		{"patch", "", "pods/status", ScopePlaceholders, "to open and close their readiness gate"},
		{"create", events, "events", ScopeEvents, "to tell what happened"},
		{"patch", events, "events", ScopeEvents, "to tell that it happened again"},
	}
}
