package credentials

import "testing"

// The examples of matchImages and of image pull secrets in the documentation of Kubernetes, and what they are not for.
func TestPatternsAsTheKubeletReadsThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, image string
		want           bool
	}{
		{"123456789012.dkr.ecr.us-east-1.amazonaws.com", "123456789012.dkr.ecr.us-east-1.amazonaws.com/a", true},
		{"*.azurecr.io", "team.azurecr.io/a", true},
		{"*.azurecr.io", "azurecr.io/a", false},
		{"gcr.io", "gcr.io/project/a", true},
		{"gcr.io", "eu.gcr.io/project/a", false},
		{"*.*.registry.io", "a.b.registry.io/x", true},
		{"*.*.registry.io", "b.registry.io/x", false},
		{"registry.io:8080/path", "registry.io:8080/path/x", true},
		{"registry.io:8080/path", "registry.io/path/x", false},
		{"registry.io:8080/path", "registry.io:8080/other/x", false},
		{"registry.io", "registry.io:8080/x", false}, // without a port is not with any port
		{"*.io", "gcr.io/x", true},
		{"*.io", "eu.gcr.io/x", false}, // a glob is one label
		{"app*.k8s.io", "app1.k8s.io/x", true},
		{"app*.k8s.io", "lab.k8s.io/x", false},
		{"*.registry.io/pa*h", "a.registry.io/path/x", false}, // no globs in paths
		{"registry.io:80*", "registry.io:8080/x", false},      // nor in ports
		{"10.0.0.?:5000", "10.0.0.7:5000/x", false},           // ? begins the query of a URL
		{"docker.io/lab", "lab/x", true},
		{"docker.io/library", "busybox", true},
		{"docker.io/lab", "busybox", false},
	} {
		p, ok := parsePattern(c.pattern)
		if got := ok && p.matches(parse(t, c.image)); got != c.want {
			t.Errorf("%s for %s: %v, want %v", c.pattern, c.image, got, c.want)
		}
	}
}
