# A Deployment rolls out over targets, scales, and rolls over to another image.
. "$(dirname "$0")/lib.sh"

say "a Deployment of three"
k apply --filename - << YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata:
      labels: {app: shop}
      annotations: {$PREFIX/elect: ""}
    spec:
      containers:
      - name: shop
        image: registry.k8s.io/pause:3.9
        resources: {requests: {cpu: 100m}}
YAML
k rollout status deployment/shop --timeout="$LIMIT"

say "it scales"
k scale deployment/shop --replicas=5
k rollout status deployment/shop --timeout="$LIMIT"
[[ $(k get pods --selector app=shop --output name | wc -l) -ge 5 ]] || fail "there are fewer than five pods"

say "it rolls over"
k set image deployment/shop shop=registry.k8s.io/pause:3.10
k rollout status deployment/shop --timeout="$LIMIT"
# Old ones may still be ending, and go at any time.
living='{{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}'
for pod in $(k get pods --selector app=shop --output "go-template=$living"); do
  target=$(target_of "$pod")
  image=$(in_target "$target" get pod "$(delegate_of "$pod")" --output 'jsonpath={.spec.containers[0].image}')
  [[ $image == *:3.10 ]] || fail "the delegate of $pod in $target has image $image"
done

say "it goes with its pods"
k delete deployment shop --cascade=foreground --timeout="$LIMIT"
eventually "no pod is left" bash -c '! kubectl --kubeconfig "$0" --namespace "$1" get pods --output name | grep --quiet .' \
  "$KUBECONFIGS/source" "$NAMESPACE"
