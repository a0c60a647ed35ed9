/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "core/clock.h"
#include "worker/registration/peer-check.h"
#include "worker/registration/plan.h"
#include "worker/registration/registration.h"
#include "worker/registration/worker-id-choice.h"

/*
 * What a server knows of its registration, what it has, and what it waits for. All of it belongs to
 * the keeper's thread. registration.c goes from state to state; claiming.c, preparation.c and
 * reservation.c have what is done in the states, and goals.c what they share.
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
	RegistryOperation goal; /* NONE: nothing was written, and what is held is read */
	gint32 read_version;    /* that it is conditional on; -1: that there is no record */
	gint64 read_end_tick;   /* the record's end then */
	gboolean refused;       /* it did not take place */
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
	PREPARATION_MAKING, /* records of the layout or the datacenter that are missing */
} PreparationStep;

/* The requests of a listing. */
enum { LISTING_CLAIMS, LISTING_RESERVATIONS, LISTING_FLOOR, N_LISTING_REQUESTS };

typedef struct {
	Registry registry;     /* first: the interface */
	RegistryReport report; /* what the next poll returns, without its result */
	char *hindrance;       /* (nullable): RegistryReport.hindrance */
	gint64 stop_by_us;     /* of the current poll */
	Store *store;

	/* As the server was started; it does not change. */
	struct {
		char *servers, *root, *nonce, *version;
		char *program; /* (nullable): that it is embedded in */
		char *host;    /* as ClaimRecord has it, with the port */
		guint16 port;
		gboolean is_tls;
		TlsNames tls; /* with copies of the names; to ask peers with */
		char *name;   /* for messages: HOST:PORT, or PROGRAM@HOST */
		Layout layout;
		const SystemClock *clock;
		guint datacenter_id;
		gint64 worker_id;           /* the only one that it claims; -1: any */
		gint64 preferred_worker_id; /* -1: none */
		gint64 connect_timeout_ms, max_clock_skew_ms;
		gint64 started_ms; /* since the Unix epoch */
	} config;

	/* Keys: of all datacenters, and of this one. They do not change. */
	struct {
		char *layout, *limits;
		char *floor, *claims, *reservations;
	} keys;

	RegistrationFacts facts; /* from which plan.h decides the next state */
	gint64 now_tick;
	gboolean finding_why_down; /* the store finds out why there is no connection */
	/* Why the store has been silent for some seconds. */
	struct {
		gint64 began_at_us; /* the last answer, or the first poll */
		gint64 report_at_us;
		char *why; /* (nullable): not known, or it is not silent */
	} silence;
	gint64 lost_at_us; /* the connection, last, or the session; 0: there was none */

	struct {
		RegistrationState state;
		gboolean busy;   /* it waits for an answer, a listing or peers */
		guint64 request; /* whose answer ends the wait; 0: something else does */
	} step;

	/* What the keeper wants, beside facts.goal. */
	struct {
		gint64 since_us;
		gint64 length_ticks;       /* claim */
		gint64 end_tick;           /* extend */
		gint64 last_tick;          /* hand back */
		guint n_passed_over;       /* claim: records that may not be written */
		gboolean lost_race;        /* claim */
		gint64 look_again_us;      /* a claim waits, and a record may change unseen; or 0 */
		gboolean extension_failed; /* the last one */
		gboolean cancelled;
		gboolean finished; /* the keeper has not fetched the result yet */
		gboolean served;   /* a claim was reached once */
		RegistryResult result;
	} goal;

	/* Errors that leave the outcome of a step open. */
	struct {
		gint error; /* StoreMessage.error of an answer in this step; 0: none */
		const char *reason;
		const char *remedy; /* (nullable) */
		guint n_steps;      /* steps that ended with such an error since the last success */
	} open_error;

	struct {
		char *key;           /* (nullable) */
		gint64 order;        /* of its creation */
		gint64 announced_ns; /* CLOCK_BOOTTIME, before it was sent; 0: not yet */
	} claim;

	struct {
		PreparationStep step;
		GPtrArray *missing; /* (nullable): of MissingRecord, in order */
		guint n_made;       /* of them */
	} preparation;

	struct {
		DatacenterListing *found;             /* (nullable): LOOKING, CHECKING, LISTING */
		guint64 requests[N_LISTING_REQUESTS]; /* 0: answered */
		StoreOutcome outcome;                 /* of the first that failed; OK: none */
		const char *reason;                   /* in words; static */
	} listing;
	WorkerIdChoice choice;
	struct {
		PeerCheck *check;        /* (nullable) */
		PeerReport earlier;      /* what they said against it, the time before */
		PeerCheck *clocks;       /* (nullable): of peer-clocks.c */
		gint64 clocks_due_at_us; /* they are not asked before */
		TlsClient *tls;          /* (nullable): not needed yet; see registration_tls() */
	} peers;
	struct {
		GArray *datacenters; /* (nullable): of guint: still to be read, from the end */
		WorkerList *found;   /* (nullable): so far */
	} list;

	HeldReservation holding;
	struct {
		gboolean was_read; /* what is held is as this server wrote it */
		gboolean written;  /* and the store has accepted a write to it */
	} here;                    /* on this connection */
	char *lost_why;            /* (nullable): that it was lost, for the keeper */
	Attempt attempt;
	guint n_claims; /* that were tried: the serial of the last */
} Registration;

/* goals.c: goals, steps and errors */

/* The goal is reached: what it asked for is written. */
void registration_succeed(Registration *self);

/* The goal is not reached; without a goal: LOST. A reservation that could not be handed back is
 * held no more: its worker ID is quarantined to its end. */
void registration_fail(Registration *self, RegistryError code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);

/* A claim that fails now is tried again at @tick, and after a session timeout, as records change
 * unseen. */
void registration_retry_claim_at(Registration *self, gint64 tick);

/* The listing and the choice are not relied on any more. */
void registration_forget_listing(Registration *self);

typedef enum {
	REGISTRATION_SHORT_PAUSE, /* a race was lost: do not meet the others again at once */
	REGISTRATION_LONG_PAUSE,  /* an answer that makes no sense now */
	/* the outcome of a request is unknown: no pause without a connection, else a long one, as
	 * the next answer may be the same */
	REGISTRATION_UNSURE_PAUSE,
} RegistrationPause;

/* Begins no step for a while. Logs a warning if three steps since the last success ended UNSURE
 * with an error that is not about the connection. The goal does not fail for that, because the next
 * try may work. */
void registration_pause(Registration *self, RegistrationPause pause);

/* Notes the error of an answer that belongs to the current step, for registration_pause(). */
void registration_note_error(Registration *self, const StoreMessage *answer);

/* Starts counting again, and removes the error from RegistryReport.hindrance. Called if a step
 * succeeded, or if something other than that error is now the reason that the server has no
 * reservation. */
void registration_forget_open_errors(Registration *self);

/* From now on the state waits for the answer to @request; 0: for something else. */
void registration_begin_wait(Registration *self, guint64 request);
void registration_end_wait(Registration *self);

/* Time does not fix what is wrong: logs it, pauses, and fails the goal if it must not wait. Before
 * the first reservation that is fatal. */
void registration_complain(Registration *self, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The same for a request about @key that was answered with @outcome. */
void registration_complain_of(Registration *self, const char *key, StoreOutcome outcome,
			      const char *reason);

/* Reads the store's clock from a write that it stamped; @time_ms 0: it did not. */
void registration_note_time(Registration *self, gint64 time_ms, gint64 sent_ns, gint64 received_ns);

/* What @peers, of Peer, are asked with. Borrowed. NULL: none of them has ever spoken TLS, or the
 * files cannot be read. */
TlsClient *registration_tls(Registration *self, const GPtrArray *peers);

/* A connection is new: in between, the store may have been restored from a backup. So what is held
 * is read before anything is written on it. */
void registration_read_again(Registration *self);
