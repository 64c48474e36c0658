#!/usr/bin/env bash
# Runs a test program for cargo, with as many tests at once as bear each other. Most of them wait for clusters longer than
# for a core. Scenarios have up to four control planes each: each plane keeps 7 inotify instances, and a user has 128.
set -euo pipefail
program=${CARGO_PKG_NAME:-}/${1##*/}
case $program in
  pilotage-e2e/it-*) at_once=4 ;;
  pilotage-e2e/chaos-*) at_once=2 ;;
  *) at_once=6 ;;
esac
# A test takes the API servers of those before it, without what these left there: a start costs seconds of a core.
case $program in
  pilotage-testkit/*) ;;
  */it-*) export PILOTAGE_TESTKIT_REUSE=1 ;;
esac
RUST_TEST_THREADS=${RUST_TEST_THREADS:-$at_once} exec "$@"
