/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "core/clock.h"
#include "worker/zookeeper/access-check.h"
#include "worker/zookeeper/peer-check.h"
#include "worker/zookeeper/plan.h"
#include "worker/zookeeper/reach-probe.h"
#include "worker/zookeeper/worker-id-choice.h"

/*
 * What a server knows of its registration, what it has, and what it waits for: all of it is the
 * keeper's thread's. registry.c, the session's files and the states share it, and what several of
 * them do to it stands here, below them.
 */

/* A reservation that is held. */
typedef struct {
	gboolean held;
	guint serial; /* of the claim that gained it: which of all this process had it is */
	guint worker_id;
	gint32 version; /* of the record, as written by this server */
	gint64 first_tick;
	gint64 end_tick;
	gint32 floor_version; /* that it is known to be safe with; -1: there was none */
} HeldReservation;

/* A write whose outcome is not known yet: its reply is awaited, or lost. */
typedef struct {
	RegistryOperation goal; /* NONE: nothing was written, and what is held is looked at */
	gint32 read_version;    /* that it is conditional on; -1: that there is no record */
	gint64 read_end_tick;   /* what stood there */
	gboolean refused;       /* it did not take place */
	gboolean synced;        /* SETTLING: what is read now is not old */
	HeldReservation wanted; /* what is held if it took place */
} Attempt;

/* What PREPARING waits for. */
typedef enum {
	PREPARATION_LAYOUT,
	PREPARATION_LIMITS,
	PREPARATION_RAISING, /* the limits */
	PREPARATION_RESERVATIONS,
	PREPARATION_CLAIMS,
	PREPARATION_FLOOR,  /* for what is held */
	PREPARATION_MAKING, /* what is missing of layout or datacenter */
} PreparationStep;

/* Each part says whose it is. Nobody else writes to it, unless that is said too; registry.c makes
 * and frees all of it. */
typedef struct {
	Registry registry;     /* first: the interface */
	RegistryReport report; /* what the next poll returns, without its result */
	char *hindrance;       /* (nullable): RegistryReport.hindrance */
	gint64 stop_by_us;     /* of the current poll */

	/* As the server was started; it does not change. */
	struct {
		char *servers, *root, *auth, *nonce, *version;
		char *certificates; /* (nullable): of ZookeeperHosts */
		char *program;      /* (nullable): that it is embedded in */
		char *host;         /* as ClaimRecord has it, with the port */
		guint16 port;
		gboolean is_tls;
		TlsNames tls; /* with copies of the names; to ask peers with */
		char *name;   /* for messages: HOST:PORT, or PROGRAM@HOST */
		Layout layout;
		const SystemClock *clock;
		guint datacenter_id;
		gint64 worker_id;           /* the only one that it claims; -1: any */
		gint64 preferred_worker_id; /* -1: none */
		gint64 session_timeout_ms, connect_timeout_ms, max_clock_skew_ms;
		gint64 started_ms; /* since the Unix epoch */
	} config;

	/* In ZooKeeper: of all datacenters, and of this one. As config, they do not change. */
	struct {
		char *layout, *limits;
		char *floor, *claims, *reservations;
	} paths;

	/* What is known, by which plan.h has the next state: whoever learns something writes it. */
	RegistrationFacts facts;
	gint64 now_tick;

	/* registry.c's is the state; await() and resume() have the rest. */
	struct {
		RegistrationState state;
		gboolean busy;   /* it waits for a reply, a listing, an access check or peers */
		guint64 request; /* whose reply ends the wait; 0: something else does */
	} step;

	/* What the keeper wants, beside facts.goal: registry.c begins it, and fetches its result;
	 * succeed() and fail() end it, try_again_at() says when a claim is worth another try. */
	struct {
		gint64 since_us;
		gint64 length_ticks;       /* claim */
		gint64 end_tick;           /* extend */
		gint64 last_tick;          /* hand back */
		guint n_passed_over;       /* claim: by reservation.c, as they may not be written */
		gboolean lost_race;        /* claim: reservation.c's */
		gint64 look_again_us;      /* a claim waits, and a record may change unseen; or 0 */
		gboolean extension_failed; /* the last one */
		gboolean cancelled;
		gboolean finished; /* the keeper has not fetched the result yet */
		gboolean served;   /* a claim was reached once */
		RegistryResult result;
	} goal;

	/* session-events.c's */
	ZookeeperSession *session; /* (nullable): it is opened */
	struct {
		gint64 session_id;     /* 0: it has not been connected yet */
		gint64 lost_us;        /* the connection, last, or the session; 0: there was none */
		gboolean told;         /* the log said last that it is connected */
		gboolean told_expired; /* likewise: and whether there is another is to be said */
	} connection;

	/* note_error() sets the error, await() clears it, pause() counts; forget_open_errors()
	 * resets all of it. */
	struct {
		gint error; /* ZookeeperMessage.error of a reply in this step; 0: none */
		const char *reason;
		const char *remedy; /* (nullable) */
		guint n_steps;      /* steps that ended with such an error since the last success */
	} open_error;

	/* session-opening.c's */
	struct {
		ZookeeperSession *session; /* (nullable): takes the place of the one before */
		gint64 next_at_us;         /* no other is opened before */
		gint64 opened_us;          /* when the one before was */
		GStrv addresses;           /* (nullable): ZooKeeper's, as they were known last */
		gboolean addresses_good;   /* ZooKeeper has just been there */
		char *unknown;     /* (nullable): the names that cannot be looked up, and why */
		guint failures;    /* DNS lookups in a row that did not find all names */
		ReachProbe *probe; /* (nullable): finds out why there is no connection */
	} opening;

	/* claim.c's */
	struct {
		char *path;            /* (nullable) */
		gint64 sequence;       /* among the claims of the datacenter */
		gint64 announced_ns;   /* CLOCK_BOOTTIME, before it was sent */
		guint64 watch_request; /* the one that set the watch on it */
	} claim;

	/* preparation.c's */
	struct {
		PreparationStep step;
		GPtrArray *missing; /* (nullable): of MissingZnode, in order */
		guint n_made;       /* of them */
	} preparation;

	ZookeeperAccessCheck *access; /* (nullable): securing.c's; states.c may abandon it */

	/* states.c's */
	ZookeeperListing *listing; /* (nullable): LOOKING, CHECKING, LISTING */
	WorkerIdChoice choice;
	struct {
		PeerCheck *check;   /* (nullable) */
		PeerReport earlier; /* what they said against it, the time before */
		TlsClient *tls;     /* NULL: not needed yet; see registration_tls() */
		/* peer-clocks.c's */
		PeerCheck *clocks;     /* (nullable) */
		gint64 clocks_look_us; /* no other before */
	} peers;
	struct {
		GArray *datacenters; /* (nullable): of guint: still to be read, from the end */
		WorkerList *found;   /* (nullable): so far */
	} list;

	/* reservation.c's; fail() and recheck() change it too */
	HeldReservation holding;
	struct {
		gboolean looked_at; /* what is held stood there */
		gboolean written;   /* and ZooKeeper has taken a write to it */
	} here;                     /* on this connection */
	char *lost_why; /* (nullable): that it was lost: registry.c takes it, for the keeper */
	Attempt attempt;
	guint n_claims; /* that were tried: the serial of the last */
} Registration;

/* The goal is reached: what it asked for is written. */
void registration_succeed(Registration *self);

/* It is not; without a goal: LOST. What could not be handed back is held no more: it is left to its
 * end. */
void registration_fail(Registration *self, RegistryError code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);

/* A claim that fails now is worth another try at @tick, and in a session timeout, as records change
 * unseen. */
void registration_try_again_at(Registration *self, gint64 tick);

/* What was listed and chosen is not to be relied on any more. */
void registration_look_anew(Registration *self);

typedef enum {
	REGISTRATION_SHORT_PAUSE, /* a race was lost: the others are not to be met again at once */
	REGISTRATION_LONG_PAUSE,  /* an answer that makes no sense now */
	/* nobody knows what became of a request: none for want of a connection, else a long one, as
	 * the next answer may be the same */
	REGISTRATION_UNSURE_PAUSE,
} RegistrationPause;

/* Begins no step for a while. Logs a warning if three steps since the last success ended UNSURE
 * with an error that is not about the connection. The goal does not fail for that, because the next
 * try may work. */
void registration_pause(Registration *self, RegistrationPause pause);

/* Notes the error of a reply that belongs to the current step, for pause(). */
void registration_note_error(Registration *self, const ZookeeperMessage *message);

/* Starts counting again, and removes the error from RegistryReport.hindrance. Called if a step
 * succeeded, or if something other than that error is now the reason that the server has no
 * reservation. */
void registration_forget_open_errors(Registration *self);

/* The state waits for the reply to @request; 0: for something else. resume() ends that. */
void registration_await(Registration *self, guint64 request);
void registration_resume(Registration *self);

/* Something else than a lost connection is wrong: logs it, pauses, and fails the goal if it must
 * not wait. Before the first reservation that is fatal. */
void registration_complain(Registration *self, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* What complain() is to say of a request about @path that was answered with @outcome. */
void registration_complain_of(Registration *self, const char *path, ZookeeperOutcome outcome,
			      const char *reason);

/* A write was stamped by the leader's clock: 0 is no stamp. */
void registration_note_time(Registration *self, gint64 time_ms, gint64 sent_ns, gint64 received_ns);

/* A connection is new: in between, ZooKeeper may have been restored from a backup. So what is held
 * is looked at before anything is written on it. */
void registration_recheck(Registration *self);

/* What @peers, of Peer, are asked with. Borrowed. NULL: none of them has ever spoken TLS, or the
 * files cannot be read. */
TlsClient *registration_tls(Registration *self, const GPtrArray *peers);

/* Of the session, or what it would ask for. */
gint64 registration_session_timeout_ms(const Registration *self);
