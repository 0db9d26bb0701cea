package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Thresholds are those of a kubelet, in percent of a file system; 0 where it does not say, or not in percent.
type Thresholds struct {
	// ImageGCHigh is how full the images' file system may be before unused images are deleted.
	ImageGCHigh int
	// NodeFSAvailable and ImageFSAvailable are how much must be free before pods are evicted.
	NodeFSAvailable, ImageFSAvailable int
}

// thresholds asks the kubelet for its configuration, through the API server (kubelet/pkg/server, /configz). That needs
// the permission to get nodes/proxy, which is a lot: who has it may do on the node what he likes.
func (c *client) thresholds(ctx context.Context) (Thresholds, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := c.api.Get().Resource(nodes).Name(c.node).SubResource("proxy").Suffix("configz").Do(ctx).Raw()
	if err != nil {
		return Thresholds{}, translate(c.node, err)
	}
	return parseConfigz(body)
}

func parseConfigz(body []byte) (Thresholds, error) {
	var answer struct {
		Kubelet struct {
			ImageGCHigh  int               `json:"imageGCHighThresholdPercent"`
			EvictionHard map[string]string `json:"evictionHard"`
		} `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return Thresholds{}, fmt.Errorf("configuration of the kubelet: %w", err)
	}
	hard := answer.Kubelet.EvictionHard
	return Thresholds{
		ImageGCHigh: bounded(answer.Kubelet.ImageGCHigh), NodeFSAvailable: percent(hard["nodefs.available"]), ImageFSAvailable: percent(hard["imagefs.available"]),
	}, nil
}

// percent reads a threshold such as 15%; 0 where it is an amount.
func percent(s string) int {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0
	}
	return bounded(int(n))
}

func bounded(n int) int {
	if n < 0 || n > 100 {
		return 0
	}
	return n
}

// askKubelet sends the kubelet's thresholds, if they may be known.
func (r *Reporter) askKubelet(ctx context.Context, send func(sighting)) {
	t, err := r.client.thresholds(ctx)
	if err != nil {
		r.Logger.InfoContext(ctx, "the kubelet's thresholds are not known: its defaults are taken", "node", r.Node, "error", err)
		return
	}
	send(sighting{kubelet: &t})
}
