// Package harness starts the real components that tests, the lab and the demo run on: containerd, a registry with faults,
// etcd and the API server. There is one Start function for each, usable alone, and one New function that does the same for
// a test: it stops the component when the test ends and shows its log when the test has failed.
//
// Each component has free ports on the loopback interface and folders of its own, so any number of them run side by side
// and none touches what belongs to the machine. The processes die with the one that started them, and the mounts of
// containerd with containerd, so nothing is left however a test ends.
package harness
