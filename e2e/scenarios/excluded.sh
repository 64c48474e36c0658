# Labels that all nodes of a target share are those of its virtual node, but for those that the Target excludes.
. "$(dirname "$0")/lib.sh"

target=${TARGETS%% *}
label=e2e.example.com/tier
finish() {
  k patch target "$target" --type=merge --patch '{"spec": {"excludedLabelsRegexp": null}}'
  in_target "$target" label nodes --all "$label-"
}
trap finish EXIT

node=$(k get target "$target" --output 'jsonpath={.status.node}')
shows() {
  [[ $(k get node "$node" --output 'jsonpath={.metadata.labels.e2e\.example\.com/tier}') == "$1" ]]
}

say "all nodes of $target have a label"
in_target "$target" label nodes --all "$label=gold"
eventually "$node shows it" shows gold

say "the Target excludes it"
k patch target "$target" --type=merge --patch '{"spec": {"excludedLabelsRegexp": "^e2e\\.example\\.com/tier=gold$"}}'
eventually "$node doesn't show it" shows ""
