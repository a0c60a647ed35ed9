/* SPDX-License-Identifier: Apache-2.0 */

/* Every event of the log: LOG_EVENT(value of LogEvent, name, level, interval). The interval is the
 * minimum time between two lines of the event, in milliseconds; 0 for no limit. log.h and log.c
 * include this file. snowflaked(8), LOG EVENTS, describes the events and their fields. Names and
 * fields do not change, because operators' alerts depend on them. */

/* the server */
LOG_EVENT(LOG_STARTING, "starting", INFO, 0)
LOG_EVENT(LOG_OPTION, "option", DEBUG, 0)
LOG_EVENT(LOG_LISTENING, "listening", INFO, 0)
LOG_EVENT(LOG_ADMIN_LISTENING, "admin-listening", INFO, 0)
LOG_EVENT(LOG_SOCKETS_PASSED, "sockets-passed", INFO, 0)
LOG_EVENT(LOG_READY, "ready", INFO, 0)
LOG_EVENT(LOG_STOPPING, "stopping", INFO, 0)
LOG_EVENT(LOG_RELOAD, "reload", INFO, 0)
LOG_EVENT(LOG_RELOAD_FAILED, "reload-failed", ERROR, 0)
LOG_EVENT(LOG_CERTIFICATE, "certificate", INFO, 0)
LOG_EVENT(LOG_CERTIFICATE_ENDS_SOON, "certificate-ends-soon", WARNING, 0)
LOG_EVENT(LOG_SIGNAL_IGNORED, "signal-ignored", WARNING, CONNECTION_INTERVAL_MS)
LOG_EVENT(LOG_STOPPED, "stopped", INFO, 0)
LOG_EVENT(LOG_FAILED, "failed", ERROR, 0)
LOG_EVENT(LOG_LIMITS, "limits", WARNING, 0)

/* the worker ID */
LOG_EVENT(LOG_STATE, "state", INFO, 0)
LOG_EVENT(LOG_WORKER_CLAIMED, "worker-claimed", INFO, 0)
LOG_EVENT(LOG_WORKER_WAITING, "worker-waiting", WARNING, 0)
LOG_EVENT(LOG_WORKER_RELEASED, "worker-released", INFO, 0)
LOG_EVENT(LOG_RELEASE_FAILED, "release-failed", WARNING, 0)
LOG_EVENT(LOG_WORKER_LOST, "worker-lost", ERROR, 0)
LOG_EVENT(LOG_PEERS_UNREACHABLE, "peers-unreachable", WARNING, 0)
LOG_EVENT(LOG_ADDRESS_LOCAL, "address-local", WARNING, 0)
LOG_EVENT(LOG_PEERS_CONTRADICT, "peers-contradict", WARNING, 0)
LOG_EVENT(LOG_UNIQUE_IN_DIRECTORY, "unique-in-directory", WARNING, 0)
LOG_EVENT(LOG_WORKER_ID_DERIVED, "worker-id-derived", WARNING, 0)
LOG_EVENT(LOG_EXTEND_FAILED, "extend-failed", WARNING, 0)
LOG_EVENT(LOG_EXTEND_RECOVERED, "extend-recovered", INFO, 0)
LOG_EVENT(LOG_RESERVATION_SPENT, "reservation-spent", ERROR, 0)
LOG_EVENT(LOG_RESERVATION_WRITTEN, "reservation-written", DEBUG, 0)
LOG_EVENT(LOG_DISK_HANGS, "disk-hangs", ERROR, 0)
LOG_EVENT(LOG_DISK_RECOVERED, "disk-recovered", INFO, 0)

/* ZooKeeper, or PostgreSQL: see log_name_postgresql() */
LOG_EVENT(LOG_ZOOKEEPER_CONNECTED, "zookeeper-connected", INFO, 0)
LOG_EVENT(LOG_ZOOKEEPER_LOST, "zookeeper-lost", WARNING, 0)
LOG_EVENT(LOG_ZOOKEEPER_UNREACHABLE, "zookeeper-unreachable", WARNING, 0)
LOG_EVENT(LOG_ZOOKEEPER_RESOLVE_FAILED, "zookeeper-resolve-failed", WARNING, 0)
LOG_EVENT(LOG_ZOOKEEPER_RESOLVE_RECOVERED, "zookeeper-resolve-recovered", INFO, 0)
LOG_EVENT(LOG_ZOOKEEPER_REFUSED, "zookeeper-refused", ERROR, REFUSED_INTERVAL_MS)
LOG_EVENT(LOG_SESSION_EXPIRED, "session-expired", WARNING, 0)
LOG_EVENT(LOG_DATACENTER_CREATED, "datacenter-created", WARNING, 0)
LOG_EVENT(LOG_HISTORY_CHANGED, "history-changed", WARNING, 0)
LOG_EVENT(LOG_CLAIM_MADE, "claim-made", INFO, 0)
LOG_EVENT(LOG_REGISTRATION, "registration", DEBUG, 0)
LOG_EVENT(LOG_ZOOKEEPER_SESSION, "zookeeper-session", DEBUG, 0)
LOG_EVENT(LOG_ZOOKEEPER_OPERATION, "zookeeper-operation", DEBUG, 0)
LOG_EVENT(LOG_WORKER_ID_CHOSEN, "worker-id-chosen", DEBUG, 0)

/* the audit log */
LOG_EVENT(LOG_AUDIT_FAILED, "audit-failed", WARNING, 0)
LOG_EVENT(LOG_AUDIT_DROPPING, "audit-dropping", WARNING, 0)
LOG_EVENT(LOG_AUDIT_RECOVERED, "audit-recovered", INFO, 0)
LOG_EVENT(LOG_AUDIT_GAP, "audit-gap", WARNING, 0)
LOG_EVENT(LOG_AUDIT_LOST, "audit-lost", ERROR, 0)
LOG_EVENT(LOG_AUDIT_REOPENED, "audit-reopened", INFO, 0)
LOG_EVENT(LOG_AUDIT_REOPEN_FAILED, "audit-reopen-failed", WARNING, 0)

/* a relay */
LOG_EVENT(LOG_RELAY_SERVER, "relay-server", INFO, FLEET_INTERVAL_MS)
LOG_EVENT(LOG_RELAY_NO_SERVER, "relay-no-server", WARNING, 0)
LOG_EVENT(LOG_RELAY_DISCONNECTED, "relay-disconnected", WARNING, FLEET_INTERVAL_MS)
LOG_EVENT(LOG_RELAY_SERVER_EXCLUDED, "relay-server-excluded", ERROR, 0)
LOG_EVENT(LOG_RELAY_LAYOUT_DIFFERS, "relay-layout-differs", WARNING, 0)

/* the clock */
LOG_EVENT(LOG_CLOCK_BACK, "clock-back", WARNING, CLOCK_INTERVAL_MS)
LOG_EVENT(LOG_CLOCK_FORWARD, "clock-forward", WARNING, CLOCK_INTERVAL_MS)
LOG_EVENT(LOG_CLOCK_HELD, "clock-held", WARNING, CLOCK_INTERVAL_MS)
LOG_EVENT(LOG_CLOCK_DIFFERS, "clock-differs", WARNING, 0)
LOG_EVENT(LOG_CLOCK_JUDGED, "clock-judged", DEBUG, CLOCK_INTERVAL_MS)
LOG_EVENT(LOG_LAYOUT_ENDS_SOON, "layout-ends-soon", WARNING, 0)

/* connections */
LOG_EVENT(LOG_CONNECTION_REFUSED, "connection-refused", ERROR, REFUSED_INTERVAL_MS)
LOG_EVENT(LOG_ADDRESS_REFUSED, "address-refused", ERROR, REFUSED_INTERVAL_MS)
LOG_EVENT(LOG_NOT_ALLOWED, "not-allowed", WARNING, REFUSED_INTERVAL_MS)
LOG_EVENT(LOG_HANDSHAKE_FAILED, "handshake-failed", INFO, CONNECTION_INTERVAL_MS)
LOG_EVENT(LOG_CONNECTION_CLOSED, "connection-closed", INFO, CONNECTION_INTERVAL_MS)
LOG_EVENT(LOG_ACCEPT_FAILED, "accept-failed", WARNING, CONNECTION_INTERVAL_MS)
LOG_EVENT(LOG_CONNECTION_ACCEPTED, "connection-accepted", DEBUG, 0)
LOG_EVENT(LOG_CONNECTION_ENDED, "connection-ended", DEBUG, 0)
LOG_EVENT(LOG_ADMIN_REQUEST, "admin-request", DEBUG, 0)
