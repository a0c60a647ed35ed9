/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/znodes.h"
#include "core/clock.h"
#include "worker/registration/peers.h"
#include "worker/registration/plan.h"
#include "worker/registration/registration.h"
#include "worker/registration/worker-id-choice.h"

/*
 * The state of a server's registration. Only the keeper's thread uses it.
 *
 * registration.c changes the states. claim.c and reservation.c do the work of the states. goals.c
 * defines the functions below, which these files share.
 */

/* A held reservation. */
typedef struct {
	gboolean held;
	guint serial; /* number of its claim among all claims of this process */
	guint worker_id;
	gint32 version; /* version of the record, as written by this server */
	gint64 first_tick;
	gint64 end_tick;
	/* version of the floor that it was compared with; -1: there was none */
	gint32 floor_version;
} HeldReservation;

/* A write whose outcome is not known yet: its reply is awaited, or lost. */
typedef struct {
	RegistryOperation goal; /* NONE: nothing was written, and the held record is only read */
	gint32 read_version;    /* version that the write requires; -1: the record must not exist */
	gint64 read_end_tick;   /* the record's end at that version */
	gboolean refused;       /* the write did not take place */
	HeldReservation wanted; /* the reservation that is held if the write took place */
} Attempt;

/* The answer that PREPARING waits for. */
typedef enum {
	PREPARATION_LAYOUT,
	PREPARATION_REGISTRY,
	PREPARATION_LIMITS,
	PREPARATION_RAISING, /* raising the limits */
	PREPARATION_RESERVATIONS,
	PREPARATION_CLAIMS,
	PREPARATION_FLOOR,  /* the floor, for the held reservation */
	PREPARATION_MAKING, /* creating missing records of the registry or the datacenter */
} PreparationStep;

/* The requests of a listing. */
enum { LISTING_CLAIMS, LISTING_RESERVATIONS, LISTING_FLOOR, N_LISTING_REQUESTS };

typedef struct {
	Registry registry;     /* must be first: the interface */
	RegistryReport report; /* report of the next poll, without its result */
	char *hindrance;       /* (nullable): RegistryReport.hindrance */
	gint64 stop_by_us;     /* stop_by_us of the current poll */
	Store *store;

	/* Set at the start; it does not change. */
	struct {
		char *servers, *root, *nonce;
		ClaimRecord claim; /* the claim, without worker ID and session timeout */
		char *name;        /* name in messages: HOST:PORT, or PROGRAM@HOST */
		TlsNames tls;      /* for calls to peers; the names are copies */
		Layout layout;
		const SystemClock *clock;
		guint datacenter_id;
		gint64 worker_id;           /* the only worker ID to claim; -1: any */
		gint64 preferred_worker_id; /* -1: none */
		gint64 connect_timeout_ms, max_clock_skew_ms;
		char *registry_id; /* (nullable): ID that the registry must have */
		gboolean create_registry;
	} config;

	/* Keys in the store, for all datacenters and for this one. They do not change. */
	struct {
		char *registry, *layout, *limits;
		char *floor, *claims, *reservations;
	} keys;

	/* (nullable): ID of the registry; after the first connection it does not change */
	char *registry_id;
	RegistrationFacts facts; /* facts from which plan.h derives the next state */
	gint64 now_tick;
	gboolean finding_why_down; /* the store finds out why there is no connection */
	struct {
		gint64 began_at_us; /* the last answer, or the first poll */
		gint64 down_at_us;  /* the last loss of a connection, or the first poll */
		gint64 report_at_us;
		char *why;  /* (nullable): not known, or it is not silent */
		char *text; /* (nullable): for RegistryReport.hindrance */
	} silence;
	/* time of the last loss of the connection or the session; 0: there was none */
	gint64 lost_at_us;

	struct {
		RegistrationState state;
		gboolean busy;   /* the state waits for an answer, a listing or peers */
		guint64 request; /* request whose answer ends the wait; 0: another event does */
	} step;

	/* The keeper's goal, in addition to facts.goal. */
	struct {
		gint64 since_us;
		gint64 ticks; /* argument of RegistryOps.begin() */
		/* claim: number of skipped records, which this server may not write */
		guint n_passed_over;
		gboolean lost_race; /* claim: another server has written the chosen record */
		/* when to retry a waiting claim, because records can change without a notification;
		 * or 0 */
		gint64 retry_claim_at_us;
		gboolean extension_failed; /* the last extension has failed */
		gboolean cancelled;
		gboolean finished; /* the keeper has not fetched the result yet */
		gboolean served;   /* a claim has succeeded before */
		RegistryResult result;
	} goal;

	/* Errors after which the outcome of a step is unknown. */
	struct {
		gint error; /* StoreMessage.error of an answer in this step; 0: none */
		const char *reason;
		const char *remedy; /* (nullable) */
		guint n_steps;      /* steps that ended with such an error since the last success */
	} open_error;

	struct {
		char *key;           /* (nullable) */
		gint64 order;        /* order of its creation */
		gint64 announced_ns; /* CLOCK_BOOTTIME before the request was sent; 0: not yet */
	} claim;

	struct {
		PreparationStep step;
		/* (nullable) (element-type utf8): keys of records to create, in order */
		GPtrArray *missing;
		/* number of the first keys, which are only parents of the others */
		guint n_above;
		guint n_made; /* number of records created so far */
	} preparation;

	struct {
		DatacenterListing *found;             /* (nullable): LOOKING, CHECKING, LISTING */
		guint64 requests[N_LISTING_REQUESTS]; /* 0: answered */
		/* outcome of the first failed request; OK: none */
		StoreOutcome outcome;
		const char *reason; /* description of the outcome; static */
	} listing;
	WorkerIdChoice choice;
	struct {
		PeerCheck *check;        /* (nullable) */
		PeerReport earlier;      /* report of the previous check */
		PeerCheck *clocks;       /* (nullable): check of claim_request_clocks() */
		gint64 clocks_due_at_us; /* no peer is asked for its clock before */
		TlsClient *tls;          /* (nullable): not needed yet */
	} peers;
	struct {
		/* (nullable) (element-type guint): datacenters still to be read, the last one first
		 */
		GArray *datacenters;
		WorkerList *found; /* (nullable): the list so far */
	} list;

	HeldReservation holding;
	struct {
		gboolean was_read; /* the held record was read, and is as this server wrote it */
		gboolean written;  /* the store has accepted a write to the held record */
	} here;                    /* facts about this connection */
	char *lost_why;            /* (nullable): why the reservation was lost, for the keeper */
	Attempt attempt;
	guint n_claims; /* number of attempted claims, which is the serial of the last */
} Registration;

/* Ends the goal successfully: the store has confirmed its write. */
void registration_succeed(Registration *self);

/* Ends the goal with an error; without a goal, reports LOST. A reservation that could not be
 * released is no longer held: its worker ID is quarantined until its end. */
void registration_fail(Registration *self, RegistryError code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);

/* Schedules the retry of a claim that fails now: at @tick, and after a session timeout, because
 * records can change without a notification. */
void registration_retry_claim_at(Registration *self, gint64 tick);

/* Discards the listing and the choice. */
void registration_forget_listing(Registration *self);

/* Returns: (transfer full): the data of the claim. @worker_id: -1: the held worker ID, if any */
char *registration_claim_json(const Registration *self, gint worker_id);

/* Handles a claim that is gone although the session is alive. Everything else may also be gone. */
void registration_lose_claim(Registration *self);

typedef enum {
	/* after a lost race: do not compete with the others again at once */
	REGISTRATION_SHORT_PAUSE,
	REGISTRATION_LONG_PAUSE, /* after an unexpected answer */
	/* the outcome of a request is unknown: no pause without a connection, otherwise a long one,
	 * because the next answer can be the same */
	REGISTRATION_UNSURE_PAUSE,
} RegistrationPause;

/* Delays the next step. Logs a warning if three steps since the last success ended UNSURE with an
 * error that is not about the connection. The goal does not fail, because the next try can succeed.
 */
void registration_pause(Registration *self, RegistrationPause pause);

/* Records the error in an answer to the current step, for registration_pause(). */
void registration_note_error(Registration *self, const StoreMessage *answer);

/* Resets the count, and removes the error from RegistryReport.hindrance. Called if a step has
 * succeeded, or if the server lacks a reservation for another reason than this error. */
void registration_forget_open_errors(Registration *self);

/* Lets the state wait for the answer to @request; 0: for another event. */
void registration_begin_wait(Registration *self, guint64 request);
void registration_end_wait(Registration *self);

/* Handles an error that waiting does not fix: logs it, pauses, and fails the goal if it must not
 * wait. Before the first reservation, the error is fatal. */
void registration_complain(Registration *self, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Calls registration_complain() about a request for @key that was answered with @outcome. */
void registration_complain_of(Registration *self, const char *key, StoreOutcome outcome,
			      const char *reason);

/* Reads the store's clock from the time of a write; @time_ms 0: the store gave no time. */
void registration_note_time(Registration *self, gint64 time_ms, gint64 sent_ns, gint64 received_ns);

/* Prepares for a new connection. The store may have been restored from a backup before, so the held
 * record is read before anything is written. */
void registration_read_again(Registration *self);
