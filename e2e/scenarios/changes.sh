# A debug container and other amounts that a pod of the source gets while it runs reach the pod that runs for it.
. "$(dirname "$0")/lib.sh"

k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: busy
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: busy
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 100m}}
YAML
k wait pod/busy --for=condition=Ready --timeout="$LIMIT"
target=$(target_of busy)
delegate=$(delegate_of busy)

say "a debug container"
image=registry.k8s.io/e2e-test-images/busybox:1.29-4
k debug busy --image="$image" --container=shell --target=busy --attach=false -- sleep 3600
in_target "$target" wait "pod/$delegate" --for='jsonpath={.spec.ephemeralContainers[0].name}'=shell --timeout="$LIMIT"

# Which amounts a container has is said by its kubelet; nodes that only say that they run pods don't, and then the API
# server takes no other ones.
runs='{.status.containerStatuses[0].resources.requests.cpu}'
node=$(in_target "$target" get pod "$delegate" --output 'jsonpath={.spec.nodeName}')
mark='{.metadata.annotations.kwok\.x-k8s\.io/node}'
if [[ $(in_target "$target" get node "$node" --output "jsonpath=$mark") == fake ]]; then
  in_target "$target" patch pod "$delegate" --subresource=status --type=json --patch \
    '[{"op": "add", "path": "/status/containerStatuses/0/resources", "value": {"requests": {"cpu": "100m"}}}]'
fi
k wait pod/busy --for="jsonpath=$runs"=100m --timeout="$LIMIT"

say "other amounts"
k patch pod busy --subresource=resize --patch \
  '{"spec": {"containers": [{"name": "busy", "resources": {"requests": {"cpu": "150m"}}}]}}'
has='{.spec.containers[0].resources.requests.cpu}'
in_target "$target" wait "pod/$delegate" --for="jsonpath=$has"=150m --timeout="$LIMIT"

k delete pod busy --grace-period=1 --timeout="$LIMIT"
