// Owns what the scheduler would say of a pod: each plugin's verdict, scores and the report.
package main

import (
	"errors"
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type refusal struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

type verdict struct {
	Pod        string                      `json:"pod"`
	PreEnqueue *refusal                    `json:"preEnqueue,omitempty"`
	PreFilter  *refusal                    `json:"preFilter,omitempty"`
	Nodes      []string                    `json:"nodes,omitempty"`
	Filter     map[string]refusal          `json:"filter"`
	Scores     map[string]map[string]int64 `json:"scores"`
	Totals     map[string]int64            `json:"totals"`
	Best       []string                    `json:"best"`
	Message    string                      `json:"message,omitempty"`
	// Empty where preemption takes a nomination away; absent where it leaves it as it is.
	Nominated  *string              `json:"nominated,omitempty"`
	Victims    []string             `json:"victims,omitempty"`
	Cleared    []string             `json:"cleared,omitempty"`
	Candidates map[string]candidate `json:"candidates,omitempty"`
	Limited    bool                 `json:"limited,omitempty"`
}

func refused(status *fwk.Status) refusal {
	return refusal{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: status.Reasons()}
}

// Nothing is changed by it.
func (w *world) evaluate(pod *v1.Pod) (*verdict, error) {
	profile, ok := w.scheduler.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile is named %q", pod.Spec.SchedulerName)
	}
	snapshot, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return nil, errors.New("the snapshot is of another type")
	}
	if err := w.scheduler.Cache.UpdateSnapshot(w.logger(), snapshot); err != nil {
		return nil, err
	}
	told := &verdict{
		Pod: pod.Namespace + "/" + pod.Name, Filter: map[string]refusal{}, Scores: map[string]map[string]int64{},
		Totals: map[string]int64{}, Best: []string{},
	}
	told.PreEnqueue = w.gate(profile, pod)
	feasible, err := w.filter(profile, snapshot, pod, told)
	if err != nil {
		return nil, err
	}
	if feasible {
		return told, nil
	}
	return told, w.report(profile, pod, told)
}

// Who keeps the pod out of the queue, as the queue asks; nil if nobody does.
func (w *world) gate(profile framework.Framework, pod *v1.Pod) *refusal {
	for _, plugin := range profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(w.ctx, pod); !status.IsSuccess() {
			said := refused(status)
			said.Plugin = plugin.Name()
			return &said
		}
	}
	return nil
}

// Runs PreFilter, Filter and Score over all nodes; whether any node will do.
func (w *world) filter(profile framework.Framework, snapshot *internalcache.Snapshot, pod *v1.Pod, told *verdict) (bool, error) {
	all, err := snapshot.List()
	// Without nodes the scheduler asks no plugin.
	if err != nil || len(all) == 0 {
		return false, err
	}
	state := framework.NewCycleState()
	narrowed, status, _ := profile.RunPreFilterPlugins(w.ctx, state, pod)
	if !status.IsSuccess() {
		said := refused(status)
		told.PreFilter = &said
		return false, nil
	}
	if !narrowed.AllNodes() {
		told.Nodes = narrowed.NodeNames.UnsortedList()
		sort.Strings(told.Nodes)
	}
	var feasible []fwk.NodeInfo
	for _, node := range all {
		name := node.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			continue
		}
		status := profile.RunFilterPluginsWithNominatedPods(w.ctx, state, pod, node)
		if status.IsSuccess() {
			feasible = append(feasible, node)
		} else {
			told.Filter[name] = refused(status)
		}
	}
	if len(feasible) == 0 {
		return false, nil
	}
	if status := profile.RunPreScorePlugins(w.ctx, state, pod, feasible); !status.IsSuccess() {
		return false, status.AsError()
	}
	scored, status := profile.RunScorePlugins(w.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return false, status.AsError()
	}
	best := int64(-1)
	for _, node := range scored {
		parts := map[string]int64{}
		for _, part := range node.Scores {
			parts[part.Name] = part.Score
		}
		told.Scores[node.Name], told.Totals[node.Name] = parts, node.TotalScore
		best = max(best, node.TotalScore)
	}
	for name, total := range told.Totals {
		if total == best {
			told.Best = append(told.Best, name)
		}
	}
	sort.Strings(told.Best)
	return true, nil
}

// The text that the pod's author reads, and whom preemption would delete: by the scheduler's own path.
func (w *world) report(profile framework.Framework, pod *v1.Pod, told *verdict) error {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	// Where nothing else is said, the scheduler takes a nomination away.
	told.Nominated = new(string)
	state := framework.NewCycleState()
	_, err = w.scheduler.SchedulePod(w.ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})
	var unfit *framework.FitError
	if !errors.As(err, &unfit) {
		if err != nil {
			told.Message = err.Error()
		}
		return nil
	}
	if profile.HasPostFilterPlugins() {
		if err := w.preempt(profile, state, pod, unfit, told); err != nil {
			return err
		}
	}
	told.Message = unfit.Error()
	return nil
}
