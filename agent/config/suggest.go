package config

import "strings"

// fieldRemedy says what was probably meant by a field that an object does not have.
func fieldRemedy(name string, fields []field) string {
	known := names(fields)
	if home := homeOf(name); home != "" {
		return "it belongs in " + home
	}
	if near := closest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "remove it; known here are " + strings.Join(known, ", ")
}

// homeOf is the object that has a field of this name, empty where none has.
func homeOf(name string) string {
	switch name {
	case "name", "reference", "nodes":
		return "an entry of images"
	case "refreshInterval", "pin", "required":
		return "defaults or an entry of images"
	case "accelerator", "matchLabels", "matchExpressions":
		return "nodes of an entry of images"
	case "maxParallelImages", "stallTimeout", "engine":
		return "pull"
	case "headroomPercent":
		return "disk"
	case "failOpenAfter":
		return "startupTaint"
	case "images", "defaults", "pull", "disk", "startupTaint":
		return "the file's outermost level"
	default:
		return ""
	}
}

// closest is the candidate that was probably meant by word, or "": a common other name for it, or one that differs by
// few letters.
func closest(word string, candidates []string) string {
	other := map[string]string{
		"image": "reference", "ref": "reference", "selector": "nodes", "nodeselector": "nodes", "labels": "matchLabels",
		"interval": "refreshInterval", "optional": "required", "parallelism": "maxParallelImages",
		"cpu": "none", "gpu": "nvidia", "cuda": "nvidia", "all": "any", "equals": "In", "==": "In", "!=": "NotIn",
	}[strings.ToLower(word)]
	least := max(2, len(word)/4) + 1
	if len(word) < 4 { // two of three letters would be another word
		least = 2
	}
	best := ""
	for _, c := range candidates {
		if c == other {
			return c
		}
		if n := distance(strings.ToLower(word), strings.ToLower(c)); n < least {
			best, least = c, n
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes; words far longer than any of ours are simply far away.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// boolRemedy knows the truth values of YAML 1.1, which are plain text in YAML 1.2.
func boolRemedy(value string) string {
	switch strings.ToLower(value) {
	case "yes", "y", "on", "true", "1":
		return "true, without quotes"
	case "no", "n", "off", "false", "0":
		return "false, without quotes"
	default:
		return "true or false"
	}
}

// oneOf lists words for a remedy.
func oneOf(word string, candidates []string) string {
	if near := closest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	return "write one of " + strings.Join(candidates, ", ")
}
