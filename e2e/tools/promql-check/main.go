// Command promql-check parses expressions of alerts and dashboards with Prometheus' own parser and tells what they ask
// for. It knows no metrics: whether there are such is judged by who asks.
//
// Each line of the standard input is an expression, as a string of JSON. Each line of the output is an answer.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// answer is what one expression asks for, or why it is none.
type answer struct {
	Error     string     `json:"error,omitempty"`
	Selectors []selector `json:"selectors,omitempty"`
	Lists     []list     `json:"lists,omitempty"`
}

// selector picks series.
type selector struct {
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
}

// matcher compares one label.
type matcher struct {
	Label string `json:"label"`
	Op    string `json:"op"`
	Value string `json:"value"`
}

// list is what stands behind by, without, on, ignoring, group_left or group_right, with the metrics that it is about.
type list struct {
	Labels  []string `json:"labels"`
	Metrics []string `json:"metrics"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promql-check:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	questions, buffer := json.NewDecoder(in), bufio.NewWriter(out)
	answers := json.NewEncoder(buffer)
	promql := parser.NewParser(parser.Options{})
	for {
		var text string
		if err := questions.Decode(&text); errors.Is(err, io.EOF) {
			return buffer.Flush()
		} else if err != nil {
			return err
		}
		if err := answers.Encode(ask(promql, text)); err != nil {
			return err
		}
	}
}

func ask(promql parser.Parser, text string) answer {
	expression, err := promql.ParseExpr(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	var found answer
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			found.Selectors = append(found.Selectors, selectorOf(node))
		case *parser.AggregateExpr:
			found.add(node.Grouping, node.Expr)
		case *parser.BinaryExpr:
			if matching := node.VectorMatching; matching != nil {
				found.add(matching.MatchingLabels, node.LHS)
				found.add(matching.MatchingLabels, node.RHS)
				one := node.RHS
				if matching.Card == parser.CardOneToMany {
					one = node.LHS
				}
				found.add(matching.Include, one)
			}
		}
		return nil
	})
	return found
}

// add notes labels that series of an expression should have.
func (a *answer) add(names []string, expression parser.Expr) {
	if len(names) == 0 {
		return
	}
	about := list{Labels: names, Metrics: []string{}}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if vector, ok := node.(*parser.VectorSelector); ok {
			about.Metrics = append(about.Metrics, vector.Name)
		}
		return nil
	})
	a.Lists = append(a.Lists, about)
}

func selectorOf(vector *parser.VectorSelector) selector {
	found := selector{Metric: vector.Name, Matchers: []matcher{}}
	for _, one := range vector.LabelMatchers {
		// The parser makes a matcher of the metric's name, too.
		if one.Name != labels.MetricName || vector.Name == "" {
			found.Matchers = append(found.Matchers, matcher{one.Name, one.Type.String(), one.Value})
		}
	}
	return found
}
