# A Service that selects a pod and the Ingress in front of it go where the pod runs, and stay in step.
. "$(dirname "$0")/lib.sh"

finish() {
  k delete service,ingress front --ignore-not-found
}
trap finish EXIT

say "a Service, an Ingress, and a pod behind them"
k apply --filename - << YAML
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  selector: {app: front}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front}
spec:
  rules:
  - host: front.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: front, port: {name: http}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: front
  labels: {app: front}
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: front
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
k wait pod/front --for=condition=Ready --timeout="$LIMIT"
target=$(target_of front)

say "the Service selects delegates"
selects='{.spec.selector.multicluster\.admiralty\.io/app}'
k wait service/front --for="jsonpath=$selects"=front --timeout="$LIMIT"
original='{.metadata.annotations.multicluster\.admiralty\.io/original-selector}'
[[ $(k get service front --output "jsonpath=$original") == app=front ]] || fail "nobody knows the author's selector"

say "both are in $target"
eventually "the Service is in $target" in_target "$target" get service front
eventually "the Ingress is in $target" in_target "$target" get ingress front
in_target "$target" wait service/front --for="jsonpath=$selects"=front --timeout="$LIMIT"
selected=$(in_target "$target" get pods --selector "$PREFIX/app=front" --output 'jsonpath={.items[*].metadata.name}')
[[ $selected == $(delegate_of front) ]] || fail "the Service in $target selects '$selected'"

say "changes follow"
k patch service front --type=json --patch '[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]'
in_target "$target" wait service/front --for='jsonpath={.spec.ports[0].port}'=81 --timeout="$LIMIT"
k patch ingress front --type=json --patch \
  '[{"op": "replace", "path": "/spec/rules/0/host", "value": "new.example.com"}]'
in_target "$target" wait ingress/front --for='jsonpath={.spec.rules[0].host}'=new.example.com --timeout="$LIMIT"

say "copies go with the pod, and the originals stay"
k delete pod front --timeout="$LIMIT"
in_target "$target" wait service/front ingress/front --for=delete --timeout="$LIMIT"
k get service/front ingress/front
