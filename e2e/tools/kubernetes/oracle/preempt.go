// Owns what preemption decides: by the scheduler's own path, and beside it all candidates that it might have chosen.
package main

import (
	"errors"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// How often two candidates are put side by side in each order. Of two that cost the same, Go's maps give either, the one
// that was put in first in seven of eight cases.
const comparisons = 8

// A node where room can be made.
type candidate struct {
	// All that have to go, also those that are going already.
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
	// Whether none costs less.
	Best bool `json:"best"`
}

// Whom preemption would delete, where, and what it says if it can't help. Nothing is changed by it.
func (w *world) preempt(profile framework.Framework, state fwk.CycleState, pod *v1.Pod, unfit *framework.FitError, told *verdict) error {
	// Preemption looks its pod up. Nobody else has to know of it.
	store := w.informers.Core().V1().Pods().Informer().GetStore()
	known, exists, err := store.Get(pod)
	if err != nil {
		return err
	}
	if exists {
		pod = known.(*v1.Pod)
	} else {
		if err := store.Add(pod); err != nil {
			return err
		}
		defer store.Delete(pod)
	}
	w.victims, w.cleared = nil, nil
	result, status := profile.RunPostFilterPlugins(w.ctx, state, pod, unfit.Diagnosis.NodeToStatus)
	told.Victims, told.Cleared = w.victims, w.cleared
	sort.Strings(told.Victims)
	sort.Strings(told.Cleared)
	unfit.Diagnosis.PostFilterMsg = status.Message()
	if result == nil || result.Mode() != fwk.ModeOverride {
		told.Nominated = nil
		return nil
	}
	told.Nominated = &result.NominatedNodeName
	if result.NominatedNodeName == "" {
		return nil
	}
	return w.candidates(profile, state, pod, unfit, told)
}

func (w *world) candidates(profile framework.Framework, state fwk.CycleState, pod *v1.Pod, unfit *framework.FitError, told *verdict) error {
	args, err := preemptionArgs(w.config, profile.ProfileName())
	if err != nil {
		return err
	}
	plugin, err := defaultpreemption.New(w.ctx, args, profile, feature.Features{})
	if err != nil {
		return err
	}
	nodes, err := unfit.Diagnosis.NodeToStatus.NodesForStatusCode(profile.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return err
	}
	budgets, err := w.informers.Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	found, err := all(w, plugin.Evaluator, state, pod, nodes, budgets)
	if err != nil {
		return err
	}
	_, enough := plugin.GetOffsetAndNumCandidates(int32(len(nodes)))
	told.Limited = int(enough) < len(nodes)
	told.Candidates = map[string]candidate{}
	best := plugin.Evaluator.SelectCandidate(w.ctx, found)
	for _, each := range found {
		victims := []string{}
		for _, victim := range each.Victims().Pods {
			victims = append(victims, victim.Namespace+"/"+victim.Name)
		}
		sort.Strings(victims)
		told.Candidates[each.Name()] = candidate{
			Victims: victims, Violations: each.Victims().NumPDBViolations, Best: w.isAsGood(plugin.Evaluator, each, best),
		}
	}
	return nil
}

func all(w *world, evaluator *preemption.Evaluator, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
	budgets []*policy.PodDisruptionBudget) ([]preemption.Candidate, error) {
	found, _, err := evaluator.DryRunPreemption(w.ctx, state, pod, nodes, budgets, 0, int32(len(nodes))+1)
	if len(found) == 0 {
		return nil, errors.Join(errors.New("a candidate was chosen although there is none"), err)
	}
	return found, nil
}

// Whether the real choice may fall on either of the two.
func (w *world) isAsGood(evaluator *preemption.Evaluator, one, best preemption.Candidate) bool {
	if one.Name() == best.Name() {
		return true
	}
	both := []preemption.Candidate{best, one}
	for range 2 * comparisons {
		if evaluator.SelectCandidate(w.ctx, both).Name() == one.Name() {
			return true
		}
		slices.Reverse(both)
	}
	return false
}

func preemptionArgs(cfg *config.KubeSchedulerConfiguration, name string) (*config.DefaultPreemptionArgs, error) {
	for _, profile := range cfg.Profiles {
		if profile.SchedulerName != name {
			continue
		}
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*config.DefaultPreemptionArgs); ok {
				return args, nil
			}
		}
	}
	return nil, errors.New("preemption has no arguments")
}
