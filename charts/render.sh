#!/usr/bin/env bash
# Writes what `pilotage install` applies: the chart's objects with their default values. The definitions aren't among them,
# the program has those itself; the namespace and the image are words that it replaces.
#
#   render.sh HELM [ARGUMENTS]     prints it; further arguments are for `helm template`
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
echo '# Written by `make chart`.'
# Hooks are for Helm, which runs them when the release goes.
"$1" template pilotage "$here/pilotage" --namespace install-namespace --no-hooks \
	--set image.repository=install-image,image.tag=latest,crds.install=false "${@:2}" |
	sed -e '/^# Source: /d' -e '/^ *helm\.sh\/chart: /d' -e 's/^\( *app\.kubernetes\.io\/managed-by:\) Helm$/\1 kubectl-pilotage/'
