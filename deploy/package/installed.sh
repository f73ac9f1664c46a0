#!/bin/sh
# Run after the package was installed. The service starts when somebody enables it: it needs a configuration first.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart replicator.service
fi
