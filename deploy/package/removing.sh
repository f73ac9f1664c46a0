#!/bin/sh
# Run before the package is removed ("remove", or 0 packages left), and before it gives way to another version.
set -e
if [ -d /run/systemd/system ]; then
  case "$1" in
    remove|0) systemctl disable --now replicator.service ;;
  esac
fi
