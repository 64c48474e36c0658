// Owns what of a configuration the oracle can honour: its profiles. What it would pass over is an error, so that nobody
// takes an answer for that of a scheduler with extenders.
package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
)

// The only share of nodes that the oracle looks at.
const allNodes = 100

func checkSupported(cfg *config.KubeSchedulerConfiguration) error {
	usual, err := latest.Default()
	if err != nil {
		return err
	}
	given := cfg.DeepCopy()
	given.TypeMeta, given.Profiles = usual.TypeMeta, usual.Profiles
	if isAll(given.PercentageOfNodesToScore) {
		given.PercentageOfNodesToScore = usual.PercentageOfNodesToScore
	}
	var wrong []error
	ours, theirs := reflect.ValueOf(*given), reflect.ValueOf(*usual)
	for i := range ours.NumField() {
		if !equality.Semantic.DeepEqual(ours.Field(i).Interface(), theirs.Field(i).Interface()) {
			name := ours.Type().Field(i).Name
			wrong = append(wrong, fmt.Errorf("%s is not supported", strings.ToLower(name[:1])+name[1:]))
		}
	}
	for _, profile := range cfg.Profiles {
		if share := profile.PercentageOfNodesToScore; share != nil && !isAll(share) {
			wrong = append(wrong, fmt.Errorf("percentageOfNodesToScore of profile %q is not supported", profile.SchedulerName))
		}
	}
	return errors.Join(wrong...)
}

func isAll(share *int32) bool { return share != nil && *share == allNodes }
