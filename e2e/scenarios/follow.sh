# ConfigMaps and Secrets that a pod names follow it, change with their source, and go with the pod.
. "$(dirname "$0")/lib.sh"

say "a ConfigMap and a Secret, and a pod that reads both"
k create configmap settings --from-literal=colour=blue
k create secret generic password --from-literal=password=swordfish
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: reader
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: reader
    image: registry.k8s.io/pause:3.10
    envFrom:
    - configMapRef: {name: settings}
    volumeMounts:
    - {name: password, mountPath: /password}
  volumes:
  - name: password
    secret: {secretName: password}
YAML
k wait pod/reader --for=condition=Ready --timeout="$LIMIT"
target=$(target_of reader)

say "both are in $target"
in_target "$target" wait configmap/settings --for=jsonpath='{.data.colour}'=blue --timeout="$LIMIT"
in_target "$target" wait secret/password --for=jsonpath='{.data.password}'="$(printf swordfish | base64)" --timeout="$LIMIT"

say "a change follows"
k patch configmap settings --type=merge --patch '{"data": {"colour": "green"}}'
in_target "$target" wait configmap/settings --for=jsonpath='{.data.colour}'=green --timeout="$LIMIT"

say "copies go with the pod, and the originals stay"
k delete pod reader --timeout="$LIMIT"
in_target "$target" wait configmap/settings secret/password --for=delete --timeout="$LIMIT"
k delete configmap/settings secret/password
