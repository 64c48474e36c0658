# All parts of Pilotage are replaced, cluster by cluster, while pods come all the time: none of these is refused or lost,
# none is started twice, and those that ran before run on.
#
# Given besides: CHART, the chart's directory. A node has room for some hundred pods: when MOST are there, the oldest goes
# before the next one comes.
. "$(dirname "$0")/../../scenarios/lib.sh"

LIMIT=180s
MOST=${MOST:-140}
BEFORE=5
scratch=$(mktemp --directory)
rolling=
finish() {
  [[ -z $rolling ]] || kill "$rolling" 2> /dev/null || true
  rm --recursive --force "$scratch"
}
trap finish EXIT
touch "$scratch/created" "$scratch/refused" "$scratch/deleted" "$scratch/rolling" "$scratch/during"

# Creates a pod, and writes down its UID and name, or why it was refused.
create() {
  k create --filename - --output 'jsonpath={.metadata.uid} {.metadata.name}{"\n"}' \
    >> "$scratch/created" 2> "$scratch/error" << YAML || cat "$scratch/error" >> "$scratch/refused"
apiVersion: v1
kind: Pod
metadata:
  generateName: upgrade-
  labels: {of: upgrade}
  annotations: {$PREFIX/elect: ""}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: pause
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 1m}}
YAML
}

# Those that were created and not deleted, the oldest first.
alive() {
  grep --invert-match --line-regexp --fixed-strings --file="$scratch/deleted" "$scratch/created" || true
}

# UIDs of a proxy pod and of its delegate, for each delegate of a pod that is alive.
delegates() {
  local target
  for target in $TARGETS; do
    in_target "$target" get pods --selector "$PREFIX/parent-uid" --output \
      'jsonpath={range .items[*]}{.metadata.labels.multicluster\.admiralty\.io/parent-uid} {.metadata.uid}{"\n"}{end}'
  done | { grep --file=<(alive | cut --delimiter=' ' --fields=1) || true; } | sort
}

# The oldest that isn't one of those that have to run on makes room, if it runs as it should.
make_room() {
  local uid name
  read -r uid name < <(alive | sed --quiet "$((BEFORE + 1))p")
  [[ $(k get pod "$name" --output 'jsonpath={.status.phase}') == Running ]] || return 0
  [[ $(delegates | grep --count "^$uid ") == 1 ]] || fail "pod $name runs and doesn't have one delegate"
  k delete pod "$name" --wait=false > /dev/null
  echo "$uid $name" >> "$scratch/deleted"
}

# UIDs of the pods of all parts.
parts() {
  local name
  for name in source $TARGETS; do
    kubectl --kubeconfig "$KUBECONFIGS/$name" --namespace pilotage get pods \
      --selector app.kubernetes.io/instance=pilotage --output 'jsonpath={range .items[*]}{.metadata.uid}{"\n"}{end}'
  done | sort
}
none_is_old() {
  [[ -z $(comm -12 "$scratch/parts" <(parts)) ]]
}

roll() {
  local name now=$(date +%s)
  for name in source $TARGETS; do
    echo "$name" > "$scratch/rolling"
    helm --kubeconfig "$KUBECONFIGS/$name" upgrade pilotage "$CHART" --namespace pilotage --reuse-values \
      --set-string "webhook.podAnnotations.rolled=$now,controllerManager.podAnnotations.rolled=$now" \
      --set-string "scheduler.podAnnotations.rolled=$now" --wait --timeout 300s > /dev/null
  done
}

say "$BEFORE pods that run before"
for ((i = 0; i < BEFORE; i++)); do create; done
[[ ! -s $scratch/refused ]] || fail "$(head --lines=1 "$scratch/refused")"
k wait pod --selector=of=upgrade --for=condition=Ready --timeout="$LIMIT" > /dev/null
delegates > "$scratch/before"
[[ $(wc --lines < "$scratch/before") == "$BEFORE" ]] || fail "not each of them has one delegate"
parts > "$scratch/parts"

say "all parts are replaced while pods come"
begin=$SECONDS
roll &
rolling=$!
while kill -0 "$rolling" 2> /dev/null; do
  (($(alive | wc --lines) < MOST)) || make_room
  if (($(alive | wc --lines) < MOST)); then
    create
    cat "$scratch/rolling" >> "$scratch/during"
  fi
  sleep 0.5
done
wait "$rolling" || fail "helm couldn't upgrade a release"
rolling=
took=$((SECONDS - begin))
eventually "each part is a new one" none_is_old
for ((i = 0; i < BEFORE; i++)); do create; done

refused=$(wc --lines < "$scratch/refused")
((refused == 0)) || fail "$refused creations were refused, the first so: $(head --lines=1 "$scratch/refused")"
created=$(wc --lines < "$scratch/created")
for name in source $TARGETS; do
  meanwhile=$(grep --count --line-regexp "$name" "$scratch/during" || true)
  ((meanwhile > BEFORE)) || fail "only $meanwhile pods came while $name was upgraded, which says nothing"
  say "$meanwhile pods came while $name was upgraded"
done
k wait pod --selector=of=upgrade --for=condition=Ready --timeout="$LIMIT" > /dev/null ||
  fail "lost: $(k get pods --selector=of=upgrade --field-selector=status.phase!=Running --output name | tr '\n' ' ')"
k get pods --selector=of=upgrade \
  --output 'jsonpath={range .items[*]}{.metadata.uid} {.metadata.name}{"\n"}{end}' | sort > "$scratch/there"
gone=$(comm -23 <(alive | sort) "$scratch/there")
[[ -z $gone ]] || fail "these pods are gone: $gone"
delegates > "$scratch/after"
twice=$(cut --delimiter=' ' --fields=1 "$scratch/after" | uniq --repeated)
[[ -z $twice ]] || fail "these pods were started twice: $twice"
[[ $(wc --lines < "$scratch/after") == "$(alive | wc --lines)" ]] || fail "not each pod has a delegate"
disturbed=$(comm -23 "$scratch/before" "$scratch/after")
[[ -z $disturbed ]] || fail "these pods ran before and were disturbed: $disturbed"
say "$created pods came in $took s, while all parts were replaced: none was refused, lost or started twice"

k delete pod --selector=of=upgrade --timeout="$LIMIT" > /dev/null
