// Owns the protocol: one JSON document a line in, one out. Knows nothing of scheduling.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// A request has exactly one of these.
type request struct {
	Open *struct {
		Objects       []json.RawMessage `json:"objects"`
		Configuration json.RawMessage   `json:"configuration"`
		Gates         map[string]bool   `json:"gates"`
	} `json:"open"`
	Apply    json.RawMessage `json:"apply"`
	Delete   json.RawMessage `json:"delete"`
	Evaluate json.RawMessage `json:"evaluate"`
	Assume   *placed         `json:"assume"`
	Nominate *placed         `json:"nominate"`
}

// A pod and a node's name.
type placed struct {
	Pod  json.RawMessage `json:"pod"`
	Node string          `json:"node"`
}

var errNothingOpen = errors.New("no world is open")

// Answers requests until there are no more. What is wrong with one of them is its answer.
func serve(in *bufio.Reader, out *bufio.Writer) error {
	var current *world
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			answer, next := answered(line, current)
			current = next
			if encoded := json.NewEncoder(out).Encode(answer); encoded != nil {
				return encoded
			}
			if flushed := out.Flush(); flushed != nil {
				return flushed
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func answered(line []byte, current *world) (answer map[string]any, next *world) {
	next = current
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = map[string]any{"error": fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return map[string]any{"error": err.Error()}, next
	}
	name, said, next, err := act(&asked, current)
	if err != nil {
		return map[string]any{"error": err.Error()}, next
	}
	return map[string]any{name: said}, next
}

func act(asked *request, current *world) (string, any, *world, error) {
	nothing := map[string]any{}
	if asked.Open != nil {
		if current != nil {
			current.close()
		}
		if err := setGates(asked.Open.Gates); err != nil {
			return "", nil, nil, err
		}
		opened, err := open(asked.Open.Objects, asked.Open.Configuration)
		if err != nil {
			return "", nil, nil, err
		}
		return "opened", map[string]any{"plugins": opened.plugins()}, opened, nil
	}
	if current == nil {
		return "", nil, nil, errNothingOpen
	}
	switch {
	case asked.Apply != nil:
		object, err := decode(asked.Apply)
		if err == nil {
			err = current.apply(object)
		}
		return "applied", nothing, current, err
	case asked.Delete != nil:
		object, err := decode(asked.Delete)
		if err == nil {
			err = current.remove(object)
		}
		return "deleted", nothing, current, err
	case asked.Evaluate != nil:
		pod, err := decodePod(asked.Evaluate)
		if err != nil {
			return "", nil, current, err
		}
		verdict, err := current.evaluate(pod)
		return "verdict", verdict, current, err
	case asked.Assume != nil:
		pod, err := decodePod(asked.Assume.Pod)
		if err == nil {
			err = current.assume(pod, asked.Assume.Node)
		}
		return "assumed", nothing, current, err
	case asked.Nominate != nil:
		pod, err := decodePod(asked.Nominate.Pod)
		if err == nil {
			err = current.nominate(pod, asked.Nominate.Node)
		}
		return "nominated", nothing, current, err
	}
	return "", nil, current, errors.New("the request asks for nothing that is known")
}

// An object as an API server gives it, which writes amounts in one form each: with 1.5Ki kept as it is, upstream's sums
// of a pod's amounts change the pod.
func decode(raw []byte) (runtime.Object, error) {
	object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	written, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	object, _, err = clientscheme.Codecs.UniversalDeserializer().Decode(written, nil, nil)
	return object, err
}

func decodePod(raw []byte) (*v1.Pod, error) {
	object, err := decode(raw)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no pod", object)
	}
	return pod, nil
}
