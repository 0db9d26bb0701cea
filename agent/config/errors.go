package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FieldError is one thing that is wrong in a configuration file.
type FieldError struct {
	// File is the name of the file as it was given.
	File string
	// Line and Column count from 1, columns in characters.
	Line, Column int
	// Field is the path of the field, such as images[0].nodes.accelerator; empty for the file as a whole.
	Field string
	// Value is what the file says, where it is text that helps; long values are cut.
	Value string
	// Problem is what is wrong, and Remedy what to write instead.
	Problem, Remedy string
}

// Error is file:line:column: field: value "…": problem; remedy.
func (e FieldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	if e.Value != "" {
		fmt.Fprintf(&b, "value %q: ", e.Value)
	}
	b.WriteString(e.Problem)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Errors is everything that is wrong in a configuration file, in the order of its lines.
type Errors []FieldError

// Error has one line for each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each FieldError to errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// maxErrors bounds what a file of another kind can make us say.
const maxErrors = 100

// add notes an error; those beyond maxErrors are only counted.
func (d *decoder) add(line, column int, field, value, problem, remedy string) {
	if len(d.errs) >= maxErrors {
		d.more++
		return
	}
	d.errs = append(d.errs, FieldError{
		File: d.file, Line: max(line, 1), Column: max(column, 1),
		Field: field, Value: shorten(value, 120), Problem: oneLine(problem), Remedy: oneLine(remedy),
	})
}

// result is nil where nothing is wrong, else an Errors.
func (d *decoder) result() error {
	if len(d.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(d.errs, func(a, b FieldError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if d.more > 0 {
		last := d.errs[len(d.errs)-1]
		d.errs = append(d.errs, FieldError{
			File: d.file, Line: last.Line, Column: last.Column,
			Problem: fmt.Sprintf("and %d more", d.more), Remedy: "mend those above first",
		})
	}
	return d.errs
}

// oneLine keeps a text that quotes the file from breaking the line that it stands in.
func oneLine(text string) string { return shorten(strings.Join(strings.Fields(text), " "), 400) }

// shorten cuts a text that would make a line unreadable after so many characters.
func shorten(text string, most int) string {
	for i := range text {
		if most == 0 {
			return text[:i] + "…"
		}
		most--
	}
	return text
}
