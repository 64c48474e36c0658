#!/usr/bin/env bash
# Starts dockerd where there is none: on a machine without systemd, maybe without CAP_SYS_RESOURCE. Does nothing if one
# answers. Needs root, and Debian's packages docker.io, containerd and iptables, which it says if they are missing.
#
#   DOCKER_DATA   where it keeps its data, not on an overlay file system (default: docker's own)
#   DOCKER_LOG    where it writes its log
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
fail() {
	printf 'docker: %s\n' "$*" >&2
	exit 1
}

! docker info >/dev/null 2>&1 || exit 0
missing=()
for tool in docker:docker.io dockerd:docker.io containerd:containerd iptables:iptables; do
	command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
[ ${#missing[@]} -eq 0 ] || fail "install these packages: ${missing[*]}"
[ "$(id -u)" = 0 ] || fail 'only root can start it'
[ ! -e /etc/docker/daemon.json ] || grep -q '"wrapped"' /etc/docker/daemon.json ||
	fail '/etc/docker/daemon.json is somebody else'\''s: start docker yourself'

# Several kubelets on one kernel use up the usual 128 instances of inotify.
sysctl -q -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288
install -m 0755 "$here/runc-wrapper" /usr/local/bin/runc-wrapper
mkdir -p /etc/docker
cat >/etc/docker/daemon.json <<'JSON'
{
  "default-runtime": "wrapped",
  "runtimes": {"wrapped": {"path": "/usr/local/bin/runc-wrapper"}},
  "storage-driver": "overlay2"
}
JSON

log=${DOCKER_LOG:-/var/log/dockerd.log}
setsid nohup dockerd ${DOCKER_DATA:+--data-root "$DOCKER_DATA"} </dev/null >"$log" 2>&1 &
for _ in $(seq 60); do
	if docker info >/dev/null 2>&1; then
		echo "docker answers; its log: $log"
		exit 0
	fi
	sleep 1
done
tail -n 20 "$log" >&2
fail 'it does not answer within a minute'
