# A web server in a target shows a page of a ConfigMap that follows it, answers others there by a Service that follows it,
# and shows the page anew when its author changes it in the source.
. "$(dirname "$0")/../../scenarios/lib.sh"

# A kubelet looks after the files of a volume once in a minute or so.
LIMIT=180s
IMAGE=registry.k8s.io/e2e-test-images/busybox:1.29-4

say "a web server, its page and its Service"
k create configmap page --from-literal=index.html='hello from the source'
k apply --filename - << YAML
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations: {$PREFIX/elect: ""}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: $IMAGE
    command: [httpd, -f, -p, "8080", -h, /www]
    readinessProbe: {httpGet: {path: /index.html, port: 8080}, periodSeconds: 1}
    volumeMounts: [{name: page, mountPath: /www}]
  volumes: [{name: page, configMap: {name: page}}]
YAML
k wait pod/web --for=condition=Ready --timeout="$LIMIT"
target=$(target_of web)
in_target "$target" wait service/web --for=create --timeout="$LIMIT"

# reads CLIENT PAGE: another pod of the target asks for the page, by the name of the Service, until that is what it says.
reads() {
  local client=$1 page=$2
  in_target "$target" run "$client" --image="$IMAGE" --restart=Never --command -- \
    sh -c "until timeout 5 wget -q -O - http://web/index.html | grep '^$page\$'; do sleep 0.5; done"
  in_target "$target" wait "pod/$client" --for=jsonpath='{.status.phase}'=Succeeded --timeout="$LIMIT" ||
    fail "nobody in $target reads '$page'"
  in_target "$target" delete pod "$client" --timeout="$LIMIT"
}
say "others in $target read the page"
reads first 'hello from the source'

say "a change is in the page"
k patch configmap page --type=merge --patch '{"data": {"index.html": "changed in the source"}}'
shows_the_change() {
  k exec web -- wget -q -O - http://127.0.0.1:8080/index.html | grep --quiet '^changed in the source$'
}
eventually "the server shows the change" shows_the_change
reads second 'changed in the source'

say "all of it goes"
k delete pod/web service/web configmap/page --timeout="$LIMIT"
in_target "$target" wait service/web configmap/page --for=delete --timeout="$LIMIT"
