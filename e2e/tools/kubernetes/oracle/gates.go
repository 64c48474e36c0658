// Owns which feature gates a world may have otherwise than kube-scheduler has them.
package main

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// Those that may be set; all of them are off by default.
var settable = []string{string(features.TaintTolerationComparisonOperators)}

// Sets the gates for the next world; what isn't named is off again.
func setGates(wanted map[string]bool) error {
	gates := map[string]bool{}
	for _, name := range settable {
		gates[name] = false
	}
	for name, on := range wanted {
		if _, known := gates[name]; !known {
			return fmt.Errorf("feature gate %q is not supported", name)
		}
		gates[name] = on
	}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(gates)
}

// Where values of taints are compared as numbers, the scheduler complains of each that is none.
func quietIfComparing() klog.Logger {
	if utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators) {
		return klog.Logger{}
	}
	return klog.Background()
}
