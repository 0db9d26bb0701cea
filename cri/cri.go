// Package cri is the container runtime of this node: what it can do, what an image reference means, what of an image is
// missing, a pull with progress layer by layer, and the proof that an image is really there.
//
// It speaks CRI, as the kubelet does, so that an image lands where the kubelet looks for it; and, where the runtime is
// containerd, containerd's native API on the same socket for what CRI does not tell. It knows nothing of Kubernetes.
package cri
