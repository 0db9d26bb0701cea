package harness

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// CreateNode creates a Node as a kubelet would have it, with these labels; no kubelet stands behind it.
func (s *APIServer) CreateNode(ctx context.Context, name string, labels map[string]string) (*corev1.Node, error) {
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return node, nil
}
