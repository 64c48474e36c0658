// Owns the measurement of the real scheduler's cycle: from a fresh snapshot to the pod assumed, without API server.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type load struct {
	nodes, pods             int
	percentage, parallelism int32
	shape                   string
}

func measure(load load) error {
	cfg, err := latest.Default()
	if err != nil {
		return err
	}
	w, err := newWorld(load.cluster(), cfg, options{load.percentage, load.parallelism})
	if err != nil {
		return err
	}
	defer w.close()
	warm := load.warm()
	if _, err := w.place(load, 0, warm); err != nil {
		return err
	}
	began, spent := time.Now(), cpu()
	placed, err := w.place(load, warm, warm+load.pods)
	if err != nil {
		return err
	}
	wall, used := time.Since(began), cpu()-spent
	slices.Sort(placed.each)
	median := placed.each[len(placed.each)/2]
	perPod := func(time time.Duration) float64 { return float64(time.Nanoseconds()) / 1e3 / float64(load.pods) }
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": map[string]any{
		"shape": load.shape, "nodes": load.nodes, "pods": load.pods, "percentage": load.percentage,
		"parallelism": load.parallelism, "cpu_us_per_pod": perPod(used), "wall_us_per_pod": perPod(wall),
		"median_cpu_us": float64(median.Nanoseconds()) / 1e3,
		"evaluated":     placed.evaluated / load.pods, "feasible": placed.feasible / load.pods,
	}})
}

// How many nodes were looked at, how many would have done, and the CPU time of each pod.
type outcome struct {
	evaluated, feasible int
	each                []time.Duration
}

// Places pods one after the other.
func (w *world) place(load load, from, to int) (outcome, error) {
	var told outcome
	for number := from; number < to; number++ {
		pod := load.pod(number)
		began := cpu()
		err := w.placeOne(load, pod, &told)
		told.each = append(told.each, cpu()-began)
		if err != nil {
			return told, err
		}
	}
	return told, nil
}

func (w *world) placeOne(load load, pod *v1.Pod, told *outcome) error {
	state := framework.NewCycleState()
	result, err := w.tryOnce(state, pod)
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		told.evaluated += unfit.NumAllNodes
		if load.shape != "preempt" {
			return nil
		}
		if err := w.makeRoom(state, pod, unfit); err != nil {
			return err
		}
		result, err = w.tryOnce(framework.NewCycleState(), pod)
	}
	if err != nil {
		return err
	}
	told.evaluated, told.feasible = told.evaluated+result.EvaluatedNodes, told.feasible+result.FeasibleNodes
	return w.assume(pod, result.SuggestedHost)
}

// One attempt, from a fresh snapshot on.
func (w *world) tryOnce(state fwk.CycleState, pod *v1.Pod) (scheduler.ScheduleResult, error) {
	profile := w.scheduler.Profiles["default-scheduler"]
	snapshot, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return scheduler.ScheduleResult{}, errors.New("the snapshot is of another type")
	}
	if err := w.scheduler.Cache.UpdateSnapshot(w.logger(), snapshot); err != nil {
		return scheduler.ScheduleResult{}, err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return scheduler.ScheduleResult{}, err
	}
	return w.scheduler.SchedulePod(w.ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})
}

// Has pods of lower priority leave, as their deletion would be told, so that the pod finds room on the node it is nominated to.
func (w *world) makeRoom(state fwk.CycleState, pod *v1.Pod, unfit *framework.FitError) error {
	profile := w.scheduler.Profiles["default-scheduler"]
	w.victims = nil
	result, status := profile.RunPostFilterPlugins(w.ctx, state, pod, unfit.Diagnosis.NodeToStatus)
	if result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" || len(w.victims) == 0 {
		return fmt.Errorf("no room is made: %s", status.Message())
	}
	for _, victim := range w.victims {
		namespace, name, _ := strings.Cut(victim, "/")
		known, err := w.informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
		if err != nil {
			return err
		}
		if err := w.scheduler.Cache.RemovePod(w.logger(), known); err != nil {
			return err
		}
	}
	pod.Status.NominatedNodeName = result.NominatedNodeName
	return nil
}

func (load load) cluster() []runtime.Object {
	var objects []runtime.Object
	for number := range load.nodes {
		name := fmt.Sprintf("node-%05d", number)
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprintf("z%d", number%3), v1.LabelTopologyRegion: "r",
		}}}
		node.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"),
			v1.ResourcePods: resource.MustParse("110"), v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		}
		node.Status.Capacity = node.Status.Allocatable
		objects = append(objects, node)
	}
	if load.shape == "service" {
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}}
		service.Spec.Selector = map[string]string{"app": "web"}
		objects = append(objects, service)
	}
	if load.shape == "preempt" {
		for number := range 4 * load.nodes {
			objects = append(objects, load.lowPod(number))
		}
		// Preemption looks its pod up.
		for number := range load.warm() + load.pods {
			objects = append(objects, load.pod(number))
		}
	}
	for number := range 100 {
		labels := map[string]string{"team": "a"}
		objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns%d", number), Labels: labels}})
	}
	return objects
}

// How many pods come before those that are measured.
func (load load) warm() int { return load.pods / 10 }

// A pod of low priority, on its node: four fill it.
func (load load) lowPod(number int) *v1.Pod {
	pod, zero := load.pod(number), int32(0)
	pod.Name, pod.UID = fmt.Sprintf("low%d", number), types.UID(fmt.Sprintf("low%d", number))
	pod.Spec.Priority, pod.Spec.NodeName = &zero, fmt.Sprintf("node-%05d", number%load.nodes)
	started := metav1.NewTime(time.Unix(1_700_000_000+int64(number), 0))
	pod.Status.Phase, pod.Status.StartTime = v1.PodRunning, &started
	return pod
}

func (load load) pod(number int) *v1.Pod {
	labels := map[string]string{"app": "web"}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("p%d", number), Namespace: "default", UID: types.UID(fmt.Sprintf("u%d", number)), Labels: labels,
	}}
	milli := int64(100)
	selector := &metav1.LabelSelector{MatchLabels: labels}
	term := v1.PodAffinityTerm{LabelSelector: selector, TopologyKey: v1.LabelHostname}
	switch load.shape {
	case "classes":
		milli += int64(number % 50)
	case "unschedulable":
		if number%2 == 0 {
			milli = 64_000
		}
	case "preempt":
		milli = 8_000
		priority := int32(1_000)
		pod.Spec.Priority = &priority
	case "spread":
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector},
			{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: selector},
		}
	case "anti":
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term},
		}}
	case "nsaff":
		pod.Namespace = fmt.Sprintf("ns%d", number%100)
		term.TopologyKey, term.NamespaceSelector = v1.LabelTopologyZone, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term},
		}}
	}
	pod.Spec.SchedulerName = v1.DefaultSchedulerName
	pod.Spec.Containers = []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("200Mi"),
	}}}}
	return pod
}
