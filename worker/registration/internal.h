/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/znodes.h"
#include "core/clock.h"
#include "worker/registration/peers.h"
#include "worker/registration/plan.h"
#include "worker/registration/registration.h"
#include "worker/registration/worker-id-choice.h"

/*
 * All that a server knows of its registration. It belongs to the keeper's thread.
 *
 * registration.c goes from state to state. claim.c and reservation.c do the work of the states.
 * goals.c has the functions below, which these files share.
 */

/* A reservation that is held. */
typedef struct {
	gboolean held;
	guint serial; /* of the claim that gained it, among all claims of this process */
	guint worker_id;
	gint32 version; /* of the record, as written by this server */
	gint64 first_tick;
	gint64 end_tick;
	gint32 floor_version; /* of the floor that it was compared with; -1: there was none */
} HeldReservation;

/* A write whose outcome is not known yet: its reply is awaited, or lost. */
typedef struct {
	RegistryOperation goal; /* NONE: nothing was written, and the held record is read */
	gint32 read_version;    /* that it is conditional on; -1: that there is no record */
	gint64 read_end_tick;   /* the record's end at that version */
	gboolean refused;       /* it did not take place */
	HeldReservation wanted; /* held if it took place */
} Attempt;

/* The answer that PREPARING waits for. */
typedef enum {
	PREPARATION_LAYOUT,
	PREPARATION_LIMITS,
	PREPARATION_RAISING, /* the limits */
	PREPARATION_RESERVATIONS,
	PREPARATION_CLAIMS,
	PREPARATION_FLOOR,  /* for the held reservation */
	PREPARATION_MAKING, /* records of the layout or the datacenter that are missing */
} PreparationStep;

/* The requests of a listing. */
enum { LISTING_CLAIMS, LISTING_RESERVATIONS, LISTING_FLOOR, N_LISTING_REQUESTS };

typedef struct {
	Registry registry;     /* first: the interface */
	RegistryReport report; /* of the next poll, without its result */
	char *hindrance;       /* (nullable): RegistryReport.hindrance */
	gint64 stop_by_us;     /* of the current poll */
	Store *store;

	/* Set at the start; it does not change. */
	struct {
		char *servers, *root, *nonce;
		ClaimRecord claim; /* without worker ID and session timeout */
		char *name;        /* for messages: HOST:PORT, or PROGRAM@HOST */
		TlsNames tls;      /* for calls to peers; the names are copies */
		Layout layout;
		const SystemClock *clock;
		guint datacenter_id;
		gint64 worker_id;           /* the only one that it claims; -1: any */
		gint64 preferred_worker_id; /* -1: none */
		gint64 connect_timeout_ms, max_clock_skew_ms;
	} config;

	/* Keys of the store: of all datacenters, and of this one. They do not change. */
	struct {
		char *layout, *limits;
		char *floor, *claims, *reservations;
	} keys;

	RegistrationFacts facts; /* from which plan.h decides the next state */
	gint64 now_tick;
	gboolean finding_why_down; /* the store finds out why there is no connection */
	struct {
		gint64 began_at_us; /* the last answer, or the first poll */
		gint64 down_at_us;  /* the last loss of a connection, or the first poll */
		gint64 report_at_us;
		char *why;  /* (nullable): not known, or it is not silent */
		char *text; /* (nullable): for RegistryReport.hindrance */
	} silence;
	gint64 lost_at_us; /* the last loss of the connection or the session; 0: there was none */

	struct {
		RegistrationState state;
		gboolean busy;   /* it waits for an answer, a listing or peers */
		guint64 request; /* whose answer ends the wait; 0: another event does */
	} step;

	/* What the keeper wants, besides facts.goal. */
	struct {
		gint64 since_us;
		gint64 ticks;              /* argument of RegistryOps.begin() */
		guint n_passed_over;       /* claim: records that this server may not write */
		gboolean lost_race;        /* claim */
		gint64 retry_claim_at_us;  /* a claim waits, and a record can change unseen; or 0 */
		gboolean extension_failed; /* the last one */
		gboolean cancelled;
		gboolean finished; /* the keeper has not fetched the result yet */
		gboolean served;   /* a claim has succeeded once */
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
		GPtrArray *missing; /* (nullable): of char *: keys of records to make, in order */
		guint n_above;      /* of them, first: those that only lead to the others */
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
		PeerReport earlier;      /* of the check before */
		PeerCheck *clocks;       /* (nullable): of claim_request_clocks() */
		gint64 clocks_due_at_us; /* they are not asked before */
		TlsClient *tls;          /* (nullable): not needed yet */
	} peers;
	struct {
		GArray *datacenters; /* (nullable): of guint: still to be read, from the end */
		WorkerList *found;   /* (nullable): so far */
	} list;

	HeldReservation holding;
	struct {
		gboolean was_read; /* the held record is as this server wrote it */
		gboolean written;  /* and the store has accepted a write to it */
	} here;                    /* on this connection */
	char *lost_why;            /* (nullable): that it was lost, for the keeper */
	Attempt attempt;
	guint n_claims; /* that were tried: the serial of the last */
} Registration;

/* The goal is reached: what it asked for is written. */
void registration_succeed(Registration *self);

/* The goal is not reached; without a goal: LOST. A reservation that could not be released is
 * held no more: its worker ID is quarantined until its end. */
void registration_fail(Registration *self, RegistryError code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);

/* A claim that fails now is tried again at @tick, and after a session timeout, because records
 * change unseen. */
void registration_retry_claim_at(Registration *self, gint64 tick);

/* Nothing is decided by the listing and the choice any more. */
void registration_forget_listing(Registration *self);

/* (transfer full): the data of the claim. @worker_id -1: with the one that is held, if any. */
char *registration_claim_json(const Registration *self, gint worker_id);

/* The claim is gone although the session lives, so everything else can be gone, too. */
void registration_lose_claim(Registration *self);

typedef enum {
	REGISTRATION_SHORT_PAUSE, /* a race was lost: do not meet the others again at once */
	REGISTRATION_LONG_PAUSE,  /* an answer that makes no sense now */
	/* the outcome of a request is unknown: no pause without a connection, else a long one, as
	 * the next answer can be the same */
	REGISTRATION_UNSURE_PAUSE,
} RegistrationPause;

/* Begins no step for a while. Logs a warning if three steps since the last success ended UNSURE
 * with an error that is not about the connection. The goal does not fail for that, because the next
 * try can work. */
void registration_pause(Registration *self, RegistrationPause pause);

/* Notes the error of an answer that belongs to the current step, for registration_pause(). */
void registration_note_error(Registration *self, const StoreMessage *answer);

/* Starts counting again, and removes the error from RegistryReport.hindrance. Called if a step
 * succeeded, or if something other than that error is now the reason that the server has no
 * reservation. */
void registration_forget_open_errors(Registration *self);

/* From now on the state waits for the answer to @request; 0: for another event. */
void registration_begin_wait(Registration *self, guint64 request);
void registration_end_wait(Registration *self);

/* For an error that time does not fix: logs it, pauses, and fails the goal if it must not wait.
 * Before the first reservation it is fatal. */
void registration_complain(Registration *self, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The same for a request about @key that was answered with @outcome. */
void registration_complain_of(Registration *self, const char *key, StoreOutcome outcome,
			      const char *reason);

/* Reads the store's clock from a write that it stamped; @time_ms 0: it did not. */
void registration_note_time(Registration *self, gint64 time_ms, gint64 sent_ns, gint64 received_ns);

/* A connection is new: before it, the store can have been restored from a backup. So the held
 * record is read before anything is written. */
void registration_read_again(Registration *self);
