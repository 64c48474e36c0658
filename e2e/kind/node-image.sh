#!/usr/bin/env bash
# Builds a node image for kind out of Debian's packages and Go modules, where no registry of images can be reached.
#
#   node-image.sh [IMAGE [KUBERNETES]]     IMAGE: pilotage-kind-node:local by default
#
# KUBERNETES is the minor version of an older one, such as 1.34, which pilotage-kind-node:1.34 has then.
#
# What the control plane consists of is what tests run elsewhere (e2e/tools), so it has the same pins. What nodes have beside
# it is pinned in programs/. It needs root, docker, debootstrap and containerd. Nothing is done if the image is there and
# nothing that it is made of has changed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
tools=$root/target/tools
older=${2:-}
image=${1:-pilotage-kind-node:${older:-local}}
case ${XDG_CACHE_HOME:-} in
/*) work=$XDG_CACHE_HOME/pilotage/kind-node ;;
*) work=${HOME:?is not set: no place to keep what was built}/.cache/pilotage/kind-node ;;
esac
# Its packages are the same for each Kubernetes.
debian=$work/debian
work+=${older:+/$older}
bin=$work/bin
packages=busybox-static,ca-certificates,conntrack,containerd,containernetworking-plugins,ethtool,iproute2,iptables,kmod,nftables,procps,runc
programs=programs/kubernetes${older:+-$older}
# Of an older one, tools are what test-skew needs; the rest is among the programs.
if [ -n "$older" ]; then
	taken=("$tools/$older"/{kube-apiserver,kube-controller-manager} "$tools/etcd")
else
	taken=("$tools"/{kube-apiserver,kube-controller-manager,kube-scheduler,kubectl,etcd})
fi

daemon='' state=''
finish() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	[ -z "$state" ] || rm -rf "$state"
}
trap finish EXIT
step() { printf 'kind-node: %s\n' "$*" >&2; }
fail() {
	step "$*"
	exit 1
}

# The Kubernetes of a directory's go.mod.
pinned() {
	[ -f "$1/go.mod" ] || fail "there is no $1/go.mod: e2e/tools/bump.sh writes it"
	awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$1/go.mod"
}

# Equal keys, equal images. Debian's packages aren't part of it: they are those of the day when their root was made.
key() {
	{
		printf '%s\n' "$packages"
		(cd "$here" && find node programs/{coredns,kubernetes} "$programs" runc-wrapper node-image.sh -type f |
			sort -u | xargs cat)
		readlink -f "${taken[@]}"
	} | sha256sum | cut -c1-16
}

# What isn't among the tools: programs of the nodes, and the cluster's name server.
build_programs() {
	export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -trimpath -buildvcs=false' GOWORK=off
	local minor=${kubernetes#v*.} flags='-s -w' package
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $package.gitVersion=$kubernetes -X $package.gitMajor=1"
		flags+=" -X $package.gitMinor=${minor%%.*} -X $package.gitTreeState=clean"
	done
	step "building kubelet, kubeadm and kube-proxy $kubernetes"
	(cd "$here/$programs" && go build -ldflags="$flags" -o "$bin/" tool)
	(cd "$here/programs/kubernetes" && go build -ldflags='-s -w' -o "$bin/" ./crictl ./pause)
	step 'building coredns'
	(cd "$here/programs/coredns" && go build -ldflags='-s -w' -o "$bin/coredns" .)
	for tool in "${taken[@]}"; do
		install -m 0755 "$(readlink -f "$tool")" "$bin/${tool##*/}"
	done
}

build_debian() {
	local made=$debian codename mirror
	[ "$(cat "$made/.complete" 2>/dev/null)" != "$packages" ] || return 0
	step "gathering Debian's packages"
	# shellcheck source=/dev/null
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	# shellcheck disable=SC2016 # apt's own variables
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Identifier: Packages' |
		awk -v codename="$codename" '$2 == codename { print $1; exit }')
	rm -rf "$made"
	debootstrap --variant=minbase --include="$packages" "$codename" "$made" "$mirror" >"$work/debootstrap.log" ||
		fail "debootstrap failed: $work/debootstrap.log"
	rm -rf "${made:?}"/var/{cache/apt,lib/apt/lists,log,cache/debconf}/* \
		"${made:?}"/usr/share/{doc,man,locale,info,zoneinfo}/* "${made:?}"/dev/*
	echo "$packages" >"$made/.complete"
}

# in_docker NAME DIRECTORY PROGRAM: an image of one layer.
in_docker() {
	tar -C "$2" -c . | docker import -c "ENTRYPOINT [\"$3\"]" \
		-c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$1" >/dev/null
}

# The packet filter's commands with their extensions and libraries, for kube-proxy.
add_iptables() {
	local file name files=(/usr/sbin/xtables-nft-multi /usr/sbin/nft)
	for file in "$debian"/usr/lib/*/xtables/lib*.so; do files+=("${file#"$debian"}"); done
	while read -r file; do files+=("$file"); done < <(
		chroot "$debian" ldd "${files[@]}" | grep -oE '/[^ ]+\.so[^ :]*' | sort -u
	)
	for file in "${files[@]}"; do
		mkdir -p "$1$(dirname "$file")"
		cp -L "$debian$file" "$1$file"
	done
	mkdir -p "$1/run"
	for name in {iptables,ip6tables}{,-save,-restore}; do
		ln -s xtables-nft-multi "$1/usr/sbin/$name"
	done
}

# The images that kubeadm asks for, by the names that it has for them.
build_control_plane() {
	local reference name directory images=()
	while read -r reference; do
		name=${reference##*/}
		name=${name%%:*}
		directory=$work/images/$name
		rm -rf "$directory"
		mkdir -p "$directory/usr/local/bin" "$directory/tmp"
		cp "$bin/$name" "$directory/usr/local/bin/"
		[ "$name" != kube-proxy ] || add_iptables "$directory"
		in_docker "$reference" "$directory" "/usr/local/bin/$name"
		images+=("$reference")
	done < <("$bin/kubeadm" config images list --kubernetes-version "$kubernetes")
	build_pods_images
	docker save -o "$work/images/all.tar" "${images[@]}"
	docker rmi "${images[@]}" >/dev/null
}

# What the scenarios' pods run, by the names that they have in public: programs that wait, and a shell.
build_pods_images() {
	local reference directory=$work/images/busybox name
	for reference in registry.k8s.io/pause:3.9 registry.k8s.io/pause:3.10; do
		in_docker "$reference" "$work/images/pause" /usr/local/bin/pause
		images+=("$reference")
	done
	mkdir -p "$directory/bin" "$directory/tmp"
	cp "$debian/bin/busybox" "$directory/bin/"
	while read -r name; do
		[ "$name" = busybox ] || ln -s busybox "$directory/bin/$name"
	done < <("$debian/bin/busybox" --list)
	reference=registry.k8s.io/e2e-test-images/busybox:1.29-4
	in_docker "$reference" "$directory" /bin/env
	images+=("$reference")
}

# preload ROOT PAUSE: unpacks the images for the containerd of the node.
preload() {
	local digest
	state=$(mktemp -d) # short, since it holds a socket
	printf 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' >"$state/config.toml"
	containerd --config "$state/config.toml" --root "$1/var/lib/containerd" --state "$state/run" \
		--address "$state/sock" >"$state/log" 2>&1 &
	daemon=$!
	in_node() { ctr -a "$state/sock" -n k8s.io "$@"; }
	for _ in $(seq 50); do
		! in_node version >/dev/null 2>&1 || break
		sleep 0.2
	done
	in_node images import --snapshotter overlayfs "$work/images/all.tar" >/dev/null
	# Unpacked they are enough: their archives would double the image. Collecting garbage is asked for by an image's end.
	in_node content ls | awk '/containerd.io\/uncompressed/ { print $1 }' | while read -r digest; do
		in_node content rm "$digest" >/dev/null
	done
	in_node images tag "$2" collect.garbage/now:once >/dev/null
	in_node images rm --sync collect.garbage/now:once >/dev/null
	kill "$daemon"
	wait "$daemon" || true
	rm -rf "$state"
	daemon='' state=''
}

build_node() {
	local node=$work/node pause old
	rm -rf "$node"
	cp -a "$debian" "$node"
	rm -f "$node/.complete" "$node/etc/machine-id"
	cp "$bin"/{kubelet,kubeadm,kubectl,crictl} "$node/usr/local/bin/"
	install -m 0755 "$here"/{runc-wrapper,node/entrypoint,node/systemctl} "$node/usr/local/bin/"
	mkdir -p "$node"/{kind,etc/containerd,etc/cni/net.d,var/lib/kubelet} "$node"/etc/kubernetes/{kubelet.conf.d,manifests}
	pause=$("$bin/kubeadm" config images list --kubernetes-version "$kubernetes" | grep /pause:)
	sed "s#@PAUSE@#$pause#" "$here/node/containerd.toml" >"$node/etc/containerd/config.toml"
	cp "$here/node/cni.json" "$node/etc/containerd/cni.json"
	cp "$here/node/kubelet.yaml" "$node/etc/kubernetes/kubelet.conf.d/10-node.conf"
	cp -r "$here/node/manifests" "$node/kind/manifests"
	echo "$kubernetes" >"$node/kind/version"
	preload "$node" "$pause"
	old=$(docker image inspect -f '{{.Id}}' "$image" 2>/dev/null || true)
	tar -C "$node" -c . | docker import -c 'ENTRYPOINT ["/usr/local/bin/entrypoint"]' -c "LABEL key=$1" \
		-c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$image" >/dev/null
	# Unless a cluster runs on it.
	[ -z "$old" ] || docker rmi "$old" >/dev/null 2>&1 || true
	rm -rf "$node" "$work/images"
}

docker info >/dev/null 2>&1 || fail 'docker does not answer: e2e/kind/start-docker.sh starts it'
[ "$(id -u)" = 0 ] || fail 'only root can unpack the packages'
for tool in go debootstrap containerd ctr; do
	command -v "$tool" >/dev/null || fail "$tool is needed and isn't in PATH"
done
kubernetes=$(pinned "$here/$programs")
[ "$kubernetes" = "$(pinned "$root/e2e/tools/${programs#*/}")" ] ||
	fail "e2e/kind/$programs and e2e/tools/${programs#*/} pin different versions of Kubernetes"
mkdir -p "$bin"
key=$(key)
[ "$(docker image inspect -f '{{.Config.Labels.key}}' "$image" 2>/dev/null || true)" != "$key" ] || exit 0
build_programs
build_debian
step 'making the images of the control plane'
build_control_plane
step 'making the image of the node'
build_node "$key"
step "$image: $(docker image inspect -f '{{.Size}}' "$image") bytes"
