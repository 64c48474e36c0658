// Owns the measurement of the real scheduler's cycle: from a fresh snapshot to the pod assumed, without API server.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	warm := load.pods / 10
	if _, _, err := w.place(load, 0, warm); err != nil {
		return err
	}
	began, spent := time.Now(), cpu()
	evaluated, feasible, err := w.place(load, warm, warm+load.pods)
	if err != nil {
		return err
	}
	wall, used := time.Since(began), cpu()-spent
	perPod := func(time time.Duration) float64 { return float64(time.Nanoseconds()) / 1e3 / float64(load.pods) }
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": map[string]any{
		"shape": load.shape, "nodes": load.nodes, "pods": load.pods, "percentage": load.percentage,
		"parallelism": load.parallelism, "cpu_us_per_pod": perPod(used), "wall_us_per_pod": perPod(wall),
		"evaluated": evaluated / load.pods, "feasible": feasible / load.pods,
	}})
}

// Places pods one after the other; how many nodes were looked at, and how many would have done.
func (w *world) place(load load, from, to int) (evaluated, feasible int, err error) {
	profile := w.scheduler.Profiles["default-scheduler"]
	snapshot, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return 0, 0, errors.New("the snapshot is of another type")
	}
	for number := from; number < to; number++ {
		pod := load.pod(number)
		if err := w.scheduler.Cache.UpdateSnapshot(w.logger(), snapshot); err != nil {
			return 0, 0, err
		}
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return 0, 0, err
		}
		state := framework.NewCycleState()
		result, err := w.scheduler.SchedulePod(w.ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})
		var unfit *framework.FitError
		if errors.As(err, &unfit) {
			evaluated += unfit.NumAllNodes
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		evaluated, feasible = evaluated+result.EvaluatedNodes, feasible+result.FeasibleNodes
		if err := w.assume(pod, result.SuggestedHost); err != nil {
			return 0, 0, err
		}
	}
	return evaluated, feasible, nil
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
	for number := range 100 {
		labels := map[string]string{"team": "a"}
		objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns%d", number), Labels: labels}})
	}
	return objects
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
