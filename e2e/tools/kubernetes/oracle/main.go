// The oracle: framework and plugins of the real kube-scheduler in one process, without an API server. See README.md.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

func main() {
	load := load{}
	nodes := flag.Int("bench", 0, "measure with so many nodes instead of answering questions")
	flag.IntVar(&load.pods, "pods", 2000, "how many pods the measurement places")
	percentage := flag.Int("pct", 0, "percentageOfNodesToScore of the measurement; 0 is the stock share")
	parallelism := flag.Int("par", 16, "parallelism of the measurement")
	flag.StringVar(&load.shape, "shape", "plain", "plain, classes, unschedulable, service, spread, anti, nsaff or preempt")
	klog.InitFlags(nil)
	// Victims are asked for in the call itself, where they can be taken down.
	check(utilfeature.DefaultMutableFeatureGate.Set("SchedulerAsyncPreemption=false"))
	flag.Parse()
	if *nodes > 0 {
		load.nodes, load.percentage, load.parallelism = *nodes, int32(*percentage), int32(*parallelism)
		check(measure(load))
		return
	}
	check(serve(bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
