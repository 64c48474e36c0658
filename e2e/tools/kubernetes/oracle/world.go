// Owns a cluster as the scheduler sees it: a scheduler over a fake clientset, and the changes that happen to it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// How long a change may take to reach the scheduler's caches.
const patience = 30 * time.Second

type world struct {
	ctx       context.Context
	close     context.CancelFunc
	scheduler *scheduler.Scheduler
	client    *fake.Clientset
	informers informers.SharedInformerFactory
	config    *config.KubeSchedulerConfiguration
	version   int
	// Pods that preemption asked to delete, and whose nomination it took away, since somebody looked.
	victims, cleared []string
}

// Options beside the configuration file.
type options struct {
	percentage, parallelism int32
}

func open(objects []json.RawMessage, configuration []byte) (*world, error) {
	cfg, err := readConfiguration(configuration)
	if err != nil {
		return nil, err
	}
	var decoded []runtime.Object
	for _, raw := range objects {
		object, err := decode(raw)
		if err != nil {
			return nil, err
		}
		decoded = append(decoded, object)
	}
	return newWorld(decoded, cfg, options{percentage: allNodes, parallelism: 1})
}

// The configuration as kube-scheduler reads it, with its defaults.
func readConfiguration(raw []byte) (*config.KubeSchedulerConfiguration, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return latest.Default()
	}
	object, _, err := configscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%T is no configuration", object)
	}
	return cfg, checkSupported(cfg)
}

func newWorld(objects []runtime.Object, cfg *config.KubeSchedulerConfiguration, with options) (*world, error) {
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), quietIfComparing()))
	w := &world{ctx: ctx, close: stop, config: cfg}
	for _, object := range objects {
		if err := w.stamp(object); err != nil {
			stop()
			return nil, err
		}
	}
	w.client = fake.NewSimpleClientset(objects...)
	w.leaveNoTrace()
	w.informers = scheduler.NewInformerFactory(w.client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: w.client.EventsV1()})
	made, err := scheduler.New(ctx, w.client, w.informers, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(&with.percentage),
		scheduler.WithParallelism(with.parallelism))
	if err != nil {
		stop()
		return nil, err
	}
	w.scheduler = made
	w.watchAll()
	w.informers.Start(ctx.Done())
	synced := w.informers.WaitForCacheSync(ctx.Done())
	if err := made.WaitForHandlersSync(ctx); err != nil {
		stop()
		return nil, err
	}
	// A fake clientset keeps to itself what happens after an informer has listed and before it watches.
	if err := w.await(func() bool { return w.watched() >= len(synced) }); err != nil {
		stop()
		return nil, err
	}
	return w, nil
}

// How many kinds somebody watches, or has watched.
func (w *world) watched() int {
	kinds := map[schema.GroupVersionResource]bool{}
	for _, action := range w.client.Actions() {
		if action.GetVerb() == "watch" {
			kinds[action.GetResource()] = true
		}
	}
	return len(kinds)
}

// Kinds that are watched whether or not a plugin asks for them: what happens to an object right after its kind is watched for
// the first time, a fake clientset may keep to itself.
func (w *world) watchAll() {
	w.informers.Core().V1().Namespaces().Informer()
	w.informers.Core().V1().Services().Informer()
	w.informers.Core().V1().ReplicationControllers().Informer()
	w.informers.Apps().V1().ReplicaSets().Informer()
	w.informers.Apps().V1().StatefulSets().Informer()
	w.informers.Policy().V1().PodDisruptionBudgets().Informer()
}

// Each object gets a version of its own, by which one sees that it has arrived.
func (w *world) stamp(object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	w.version++
	accessor.SetResourceVersion(strconv.Itoa(w.version))
	return nil
}

// Preemption only says whom it would delete: nothing that it writes is done.
func (w *world) leaveNoTrace() {
	w.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if deletion, ok := action.(clienttesting.DeleteAction); ok {
			w.victims = append(w.victims, deletion.GetNamespace()+"/"+deletion.GetName())
		}
		return true, &v1.Pod{}, nil
	})
	w.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		// Victims are patched, too.
		if patch, ok := action.(clienttesting.PatchAction); ok && strings.Contains(string(patch.GetPatch()), "nominatedNodeName") {
			w.cleared = append(w.cleared, patch.GetNamespace()+"/"+patch.GetName())
		}
		return true, &v1.Pod{}, nil
	})
}

func (w *world) logger() klog.Logger { return klog.FromContext(w.ctx) }

// Creates or replaces an object, and waits until the scheduler has it.
func (w *world) apply(object runtime.Object) error {
	if err := w.stamp(object); err != nil {
		return err
	}
	kind, resource, accessor, err := identify(object)
	if err != nil {
		return err
	}
	err = w.client.Tracker().Update(resource, object, accessor.GetNamespace())
	if apierrors.IsNotFound(err) {
		err = w.client.Tracker().Create(resource, object, accessor.GetNamespace())
	}
	if err != nil {
		return err
	}
	if err := w.await(func() bool { return w.shows(kind, resource, accessor) }); err != nil {
		return err
	}
	w.tellAgain(kind)
	return nil
}

// Deletes an object, and waits until the scheduler knows.
func (w *world) remove(object runtime.Object) error {
	kind, resource, accessor, err := identify(object)
	if err != nil {
		return err
	}
	if pod, ok := object.(*v1.Pod); ok {
		if known, err := w.client.Tracker().Get(resource, pod.Namespace, pod.Name); err == nil {
			object, accessor = known, known.(metav1.Object)
		}
		w.scheduler.SchedulingQueue.DeleteNominatedPodIfExists(object.(*v1.Pod))
		// Nobody deletes through the API what was only assumed.
		if assumed, err := w.scheduler.Cache.GetPod(object.(*v1.Pod)); err == nil {
			if is, err := w.scheduler.Cache.IsAssumedPod(assumed); err == nil && is {
				if err := w.scheduler.Cache.ForgetPod(w.logger(), assumed); err != nil {
					return err
				}
			}
		}
	}
	if err := w.client.Tracker().Delete(resource, accessor.GetNamespace(), accessor.GetName()); err != nil {
		return err
	}
	if err := w.await(func() bool { return !w.has(kind, resource, accessor) }); err != nil {
		return err
	}
	w.tellAgain(kind)
	return nil
}

// A cycle's snapshot of a node says how many nodes have its images as of the last change of that very node. So when one
// node changes, the scheduler is told of all.
func (w *world) tellAgain(kind string) {
	if kind != "Node" {
		return
	}
	for _, known := range w.scheduler.Cache.Dump().Nodes {
		if node := known.Node(); node != nil {
			w.scheduler.Cache.UpdateNode(w.logger(), node, node)
		}
	}
}

func identify(object runtime.Object) (string, schema.GroupVersionResource, metav1.Object, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", schema.GroupVersionResource{}, nil, err
	}
	kinds, _, err := clientscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return "", schema.GroupVersionResource{}, nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return kinds[0].Kind, resource, accessor, nil
}

func (w *world) await(done func() bool) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		if done() {
			return nil
		}
	}
	return fmt.Errorf("the scheduler's caches didn't follow within %v", patience)
}

// Whether this very version is in the scheduler's own caches, or, of what it has no cache of, in the informers'.
func (w *world) shows(kind string, resource schema.GroupVersionResource, object metav1.Object) bool {
	version := object.GetResourceVersion()
	switch kind {
	case "Node":
		known := w.scheduler.Cache.Dump().Nodes[object.GetName()]
		return known != nil && known.Node() != nil && known.Node().ResourceVersion == version
	case "Pod":
		pod := object.(*v1.Pod)
		if pod.Spec.NodeName != "" && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			known, err := w.scheduler.Cache.GetPod(pod)
			return err == nil && known.ResourceVersion == version
		}
		if pod.Spec.NodeName != "" {
			return !w.has(kind, resource, object)
		}
	}
	stored, exists := w.stored(resource, object)
	return exists && stored.GetResourceVersion() == version
}

func (w *world) has(kind string, resource schema.GroupVersionResource, object metav1.Object) bool {
	switch kind {
	case "Node":
		known := w.scheduler.Cache.Dump().Nodes[object.GetName()]
		return known != nil && known.Node() != nil
	case "Pod":
		if _, err := w.scheduler.Cache.GetPod(object.(*v1.Pod)); err == nil {
			return true
		}
	}
	_, exists := w.stored(resource, object)
	return exists
}

func (w *world) stored(resource schema.GroupVersionResource, object metav1.Object) (metav1.Object, bool) {
	informer, err := w.informers.ForResource(resource)
	if err != nil {
		return nil, false
	}
	store := informer.Informer().GetStore()
	key := object.GetName()
	if object.GetNamespace() != "" {
		key = object.GetNamespace() + "/" + key
	}
	stored, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return nil, false
	}
	accessor, err := meta.Accessor(stored)
	return accessor, err == nil
}

// The pod counts as placed from now on.
func (w *world) assume(pod *v1.Pod, node string) error {
	w.scheduler.SchedulingQueue.DeleteNominatedPodIfExists(pod)
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	return w.scheduler.Cache.AssumePod(w.logger(), assumed)
}

// The pod counts as expected on the node from now on. The scheduler expects only pods that exist, and forgets a nomination
// when a watch shows the pod without it.
func (w *world) nominate(pod *v1.Pod, node string) error {
	pod.Status.NominatedNodeName = node
	if err := w.apply(pod); err != nil {
		return err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	w.scheduler.SchedulingQueue.AddNominatedPod(w.logger(), info,
		&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	if w.scheduler.Profiles[pod.Spec.SchedulerName] == nil {
		return nil
	}
	// Of a nominated pod that isn't in the queue, kube-scheduler knows only the name.
	return w.await(func() bool {
		known, exists := w.scheduler.SchedulingQueue.GetPod(pod.Name, pod.Namespace)
		return exists && known.Pod.ResourceVersion == pod.ResourceVersion
	})
}

// The plugins of the first profile, point by point, in order.
func (w *world) plugins() map[string]any {
	listed := w.scheduler.Profiles[w.config.Profiles[0].SchedulerName].ListPlugins()
	names := func(set config.PluginSet) []string {
		names := []string{}
		for _, plugin := range set.Enabled {
			names = append(names, plugin.Name)
		}
		return names
	}
	scores := []map[string]any{}
	for _, plugin := range listed.Score.Enabled {
		scores = append(scores, map[string]any{"name": plugin.Name, "weight": plugin.Weight})
	}
	return map[string]any{
		"preEnqueue": names(listed.PreEnqueue), "preFilter": names(listed.PreFilter), "filter": names(listed.Filter),
		"postFilter": names(listed.PostFilter), "preScore": names(listed.PreScore), "score": scores,
		"reserve": names(listed.Reserve), "permit": names(listed.Permit),
	}
}
