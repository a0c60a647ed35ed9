/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reservation protocol, for spin: servers that claim worker IDs in a registry, draw IDs from
 * what they have reserved, extend it, lose it, release it, crash and start again.
 *
 * The properties are assertions:
 *
 *   UNIQUE  no (worker ID, tick, sequence) is issued twice
 *   ORDER   the IDs of one process increase; which also says that servers do not reclaim: without
 *           it, one that changes its lease may go back to true time
 *
 * tests/model/run checks them in several configurations, and that each rule is needed: for each it
 * has a mutant (MUTANT_..., defined at the rule below), in which spin must find a counterexample.
 * README.md has the bounds and the figures.
 *
 * What is left out, and why nothing is lost by that:
 *
 * Clock. Every reading is any tick, for each thread and each keeper independently. So it does not matter
 * when it is read, and no variable holds it: it is chosen where it is used. That the sequence has
 * run out, or that the clock stepped back further than max-ahead, only refuses draws, and a draw
 * that is not made is a behaviour of the model anyway.
 *
 * Claims and sessions. A claim in ZooKeeper says that its owner lives. Sessions may expire at any
 * moment, with or without the process, and may be renewed at once. So to every reader, a claim may
 * be there or not, and a transaction that needs one may fail: every look and every transaction here
 * does either, which is all that sessions could do and more. With SESSIONS defined, the model has
 * sessions, step by step, so that this claim is checked too.
 *
 * Pauses. Every option of every loop is one step. Between two steps of a process, all others may
 * do anything. Where several things are one step, a comment says why no order of events is lost.
 *
 * Versions. Only whether the version now is the one that was read, or the one after it, ever
 * matters. So each server counts how many writes there were since its reading: 0, 1, or more. The
 * number of writes is not bounded.
 *
 * Nonces. After a crash a nonce has no owner, so it is replaced by 0, which is also what a release
 * writes: a claimant may find the claim of a dead owner there or gone, and the same goes for a live
 * one. The number of restarts is not bounded.
 *
 * Restores. With RESTORES defined, the registry is backed up at any moments, and the last backup
 * restored at any moment, RESTORES times in all: records, floor and all versions are what they
 * were. In the same step the floor is raised (snowflakectl registry quarantine), before any server
 * can reach the registry. What is taken for granted is only that the floor is no lower than any
 * end that was ever written; clocks still are any. A version counts on from the backup's, so
 * that one from what was lost is met again, with other content.
 *
 * A restore breaks every connection, but not every session: an ensemble begins a new epoch, and
 * by that takes the sessions of the backup for its own. So what a server knows is of a connection,
 * not of a session: what was read over one is not used over another. With SPAN the model does
 * without that rule: a server that has not noticed goes on, and requests arrive after the restore.
 * Then the floor's version alone is what refuses them, and that is enough for one restore; but
 * not for two of the same backup, where both floors have one version.
 *
 * Histories. With HISTORY, no operator raises the floor after a restore: a standby is promoted that
 * lacks the last writes. The floor contains the history that it belongs to. No request is sent
 * over a new connection before the floor belongs to the history of that connection; the first
 * server raises it, in the write that records the history. Requests of earlier connections do not
 * reach the promoted standby.
 */

#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef TICKS
#define TICKS 3 /* the last tick there is; the first is 1 */
#endif
#ifndef SEQUENCES
#define SEQUENCES 2 /* a tick */
#endif
#ifndef BATCH
#define BATCH 2 /* the most IDs in one draw */
#endif
#ifndef LATE
#define LATE 1 /* requests a record that may still arrive though nobody waits for them */
#endif
#ifndef THREADS
#define THREADS 0 /* a server, each in single steps; 0: a draw is one step (see Drawer) */
#endif

/* RESTORES: how often a backup is restored; else there are none. SPAN: what was sent before that
 * may arrive after it. HISTORY: servers raise the floor after it. */

#if SERVERS > 3 || WORKERS > 2 || TICKS > 7 || SEQUENCES > 2
#error "too large for the fields below"
#endif

#ifdef MUTANT_SESSION_EVENTS
#define SESSIONS
#endif

#if !defined(UNIQUE) && !defined(ORDER)
#error "define UNIQUE or ORDER"
#endif

/* A cursor is tick and sequence in one number, so that adding carries. */
#define CURSOR(tick, sequence) ((tick) * SEQUENCES + (sequence))
#define TICK(cursor) ((cursor) / SEQUENCES)
#define LAST_CURSOR CURSOR(TICKS, SEQUENCES - 1)
#define CLOSED 31 /* the cursor of a lease that is retired, or that never was */

#ifdef RESTORES
#define RESTORES_LEFT (restores < RESTORES)
#endif

#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* Nonces. 0 has no owner: released, never claimed, or of a process that is dead. */
#define NOBODY 0
#ifdef MUTANT_NONCE_REUSED
/* The nonce outlives a restart, and so does, paused, the process before it: both are called 1. */
#define NONCE(server_) 1
#else
#define NONCE(server_) ((server_) + 1)
#endif

/*
 * The registry: a record for each worker ID.
 */
typedef Record {
	unsigned end : 3;   /* the last reserved tick; 0: none yet */
	unsigned owner : 2; /* a nonce */
#ifdef MUTANT_STALE_CLAIM
	unsigned previous_end : 3; /* of the version before this one */
#endif
#ifdef RESTORES
	unsigned since : 2; /* writes since the backup: 0, 1, 2, or more */
	bit rewritten;      /* this version is of a backup, and in what was lost it had successors */
#endif
};
Record record[WORKERS];

#ifdef RESTORES
/* No claim begins at or before this tick. */
unsigned floor : 3;
unsigned floor_version : 2;
#ifdef HISTORY
bit is_unrecorded; /* the floor belongs to an earlier history than the registry */
#define IS_RECORDED (!is_unrecorded)
#else
#define IS_RECORDED true
#endif

/* The backup. The first is of the empty registry. */
Record backup[WORKERS];
unsigned backup_floor : 3;
unsigned backup_floor_version : 2;

unsigned restores : 2;
unsigned highest_end : 3; /* that was ever written */
#endif

/*
 * Requests whose senders no longer wait for them, because they gave up or crashed, and which may
 * still arrive. Their version is the one that the record has now: a request for an older one can
 * change nothing any more, and is forgotten at once. One that is lost is one that never arrives.
 */
typedef Request {
	bit sent;
	unsigned end : 3;
	unsigned owner : 2;
};
Request late[WORKERS * LATE];

/*
 * The servers.
 */

/* What the keeper is at. */
#define OUT 0     /* nothing is reserved that could be extended; an old lease may be served */
#define SENT 1    /* a request was sent */
#define DONE 2    /* the registry has executed it, and the reply is on its way */
#define GAINED 3  /* a claim succeeded; its lease is not published yet */
#define CLEARED 4 /* a lease was retired or published, the other is still to be done */
#define HELD 5    /* the reservation is mine as of the version known */

#define CLAIM 1
#define EXTEND 2
#define RELEASE 3

/* The age of what a server knows: writes since that version. After a restore it may be negative,
 * modulo 8: the version is still to come, and will be another one. */
#define MANY 2
#define FAR_AHEAD 5 /* by 3 or more; that it is met again is not searched */
#define OLDER(age_) ((age_) == MANY || (age_) == FAR_AHEAD -> (age_) : ((age_) + 1) % 8)
#define NEWER(age_) ((age_) == FAR_AHEAD -> FAR_AHEAD : ((age_) + 7) % 8)

typedef Lease {
	unsigned worker : 1;
	unsigned end : 3;    /* the last tick that may be issued */
	unsigned cursor : 5; /* of the last ID issued, or the one before the first; or CLOSED */
};

/* Threads find the published lease by one pointer. A retired lease is kept for late readers, but
 * its cursor is closed, and two places are enough: see publish(). */
#if THREADS > 0
#define LEASES 2
#else
#define LEASES 1
#endif

typedef Server {
	unsigned step : 3;
	unsigned op : 2;       /* SENT, DONE */
	unsigned worker : 1;   /* unless OUT: whose record it is about */
	unsigned age : 3;      /* unless OUT: writes since the version that is known: 0, 1, MANY */
	unsigned read_end : 3; /* of a claim: the end that was read, or the floor, if higher */
	unsigned new_end : 3;  /* what the request sets it to; GAINED, CLEARED: what is held */
	Lease lease[LEASES];
	bit published; /* which of them */
#ifdef ORDER
	unsigned last : 5;        /* cursor of the last ID that this process issued; 0: none */
	unsigned last_worker : 1; /* its worker ID */
#endif
#ifdef SESSIONS
	bit session; /* lives, and with it the claim */
#endif
#ifdef RESTORES
	unsigned floor_version : 2;   /* unless OUT: that was read before the claim */
	unsigned age_if_restored : 3; /* unless OUT: what the age would be, if the backup was */
	bit reconnected;              /* unless OUT: a backup was restored since it read */
#endif
#ifdef MUTANT_RELEASE_RESUMED
	unsigned saved_cursor : 5;
#endif
#ifdef MUTANT_RELEASE_BELOW_FIRST
	bit drawn; /* an ID was drawn from the lease */
#endif
};
Server server[SERVERS];

#define ME server[s]
#define LEASE server[s].lease[server[s].published]

/* Whether the process has done anything; else a crash makes no difference. */
#ifdef ORDER
#define RUNS (ME.step != OUT || LEASE.cursor != CLOSED || ME.last != 0)
#else
#define RUNS (ME.step != OUT || LEASE.cursor != CLOSED)
#endif

/* Threads that draw in single steps. */
#define IDLE 0
#define LEASE_READ 1
#define CURSOR_READ 2
#define END_READ 3

#if THREADS > 0
typedef Thread {
	unsigned step : 2;
	bit lease;        /* the one it saw */
	unsigned end : 3; /* END_READ: the end it saw */
};
Thread thread[SERVERS * THREADS];
#endif

/* Used within single steps only; 0 between them. */
byte i;
byte w;
byte k;
byte chosen;
byte now;
byte start;
byte count;
byte first;
byte last;

/* EACH(n) ... NEXT: a loop over i from 0 to n - 1, which leaves i at 0. */
#define EACH(n) \
	i = 0; \
	do \
	:: i < n ->
#define NEXT \
		; i++ \
	:: else -> break \
	od; \
	i = 0

/*
 * Probes: that a model does nothing wrong says little if it does nothing. With PROBE defined, the
 * assertion is that something does not happen; it must be violated.
 */
#define CLAIM_OVER_THE_DEAD 1    /* a server that holds a worker ID crashes, another claims it */
#define CLAIM_OVER_THE_LIVING 2  /* ... is overtaken, and still draws from what it had */
#define CLAIM_AFTER_RELEASE 3  /* ... releases it, another claims it */
#define DRAW_FROM_FOUND_CLAIM 4  /* the reply is lost, the claim is found written, and used */
#define DRAW_FROM_FOUND_END 5    /* the same of an extension */
#define DRAW_FROM_EXTENSION 6    /* an extension is confirmed, and its last tick used */
#define LATE_REQUEST_FOUND 7     /* one that was given up is executed, its sender finds that */
#define DRAW_AFTER_CHANGE 8      /* a process draws from worker ID 0, then from 1 */
#define DRAW_OF_LAST_TICK 9
#define DRAW_AFTER_QUARANTINE 10 /* a claim after a restore and quarantine is used */
#define DRAW_FROM_KEPT 11        /* a lease from before it is extended, used beyond the floor */
#define DRAW_FROM_LOST 12        /* one that the restored registry does not know is served out */

#ifdef PROBE
byte seen; /* the nonce of whom the first thing happened to */
#define FIRST(probe, nonce) \
	if :: PROBE == probe && seen == 0 -> seen = nonce :: else fi
#define THEN(probe, condition) assert(!(PROBE == probe && (condition)))
#define FORGET_SEEN \
	if :: PROBE >= DRAW_FROM_FOUND_CLAIM && seen == NONCE(s) -> seen = 0 :: else fi
#define FORGET_KEPT \
	if :: PROBE == DRAW_FROM_KEPT && seen == NONCE(s) -> seen = 0 :: else fi
#else
#define FIRST(probe, nonce) skip
#define THEN(probe, condition) skip
#define FORGET_SEEN skip
#define FORGET_KEPT skip
#endif

/*
 * The properties.
 */

#ifdef UNIQUE
/* One ID is watched: any one, of worker ID 0. If some ID can be issued twice, then it can when it
 * is the one that is watched, and worker IDs differ in nothing but their number. */
byte watched;
bit issued;
#endif

#ifdef MUTANT_SESSION_EVENTS
byte clock = 1;
#endif

inline issue(s, worker_, first_, last_)
{
	printf("server %d: issues worker %d, tick %d sequence %d to tick %d sequence %d\n", s,
	       worker_, TICK(first_), (first_) % SEQUENCES, TICK(last_), (last_) % SEQUENCES);
	THEN(CLAIM_OVER_THE_LIVING, seen == NONCE(s) && worker_ == 0);
	THEN(DRAW_FROM_FOUND_CLAIM, seen == NONCE(s));
	THEN(DRAW_FROM_FOUND_END, seen == NONCE(s) && TICK(last_) == LEASE.end);
	THEN(DRAW_FROM_EXTENSION, seen == NONCE(s) && TICK(last_) == LEASE.end);
	THEN(DRAW_AFTER_CHANGE, seen == NONCE(s) && worker_ == 1);
	THEN(DRAW_OF_LAST_TICK, TICK(last_) == TICKS);
#ifdef RESTORES
	THEN(DRAW_AFTER_QUARANTINE, seen == NONCE(s) && TICK(first_) > floor);
	THEN(DRAW_FROM_KEPT, seen == NONCE(s) && TICK(first_) > floor);
	THEN(DRAW_FROM_LOST, ME.reconnected && ME.step == HELD && ME.age != 0);
#endif
	if
	:: worker_ == 0 -> FIRST(DRAW_AFTER_CHANGE, NONCE(s))
	:: else
	fi;
#ifdef UNIQUE
	if
	:: worker_ == 0 && first_ <= watched && watched <= last_ ->
		assert(!issued);
		issued = 1
	:: else
	fi;
#endif
#ifdef ORDER
	assert(ME.last == 0 || TICK(first_) > TICK(ME.last) ||
	       (worker_ == ME.last_worker && first_ > ME.last));
	ME.last = last_;
	ME.last_worker = worker_;
#endif
#ifdef MUTANT_RELEASE_BELOW_FIRST
	ME.drawn = 1;
#endif
}

/*
 * Steps of the registry.
 */

/* What was sent for an older version is void, and what was read then is of no use; to forget both
 * makes fewer states. These mutants break what that rests on. */
#if defined(MUTANT_CLAIM_UNVERSIONED) || defined(MUTANT_EXTENSION_UNVERSIONED) || \
	defined(MUTANT_RELEASE_UNVERSIONED) || defined(MUTANT_ATTEMPT_ADOPTED) || \
	defined(MUTANT_OLD_READING_RETRIED) || defined(RESTORES)
#define FORGET_REQUEST(server_) skip
#define FORGET_READING(server_) skip
#else
#define FORGET_REQUEST(server_) server_.new_end = 0
#define FORGET_READING(server_) server_.read_end = 0
#endif

/* A request is executed: the record changes, and so does its version. What was sent for the version
 * before it is void now. (What was read before is needed if its reader may find the new version to
 * be its own.) */
inline write(which, end_, owner_)
{
#ifdef MUTANT_STALE_CLAIM
	record[which].previous_end = record[which].end;
#endif
	record[which].end = end_;
	record[which].owner = owner_;
#ifdef RESTORES
	record[which].rewritten = 0;
	if
	:: RESTORES_LEFT ->
		highest_end = MAX(highest_end, end_);
		record[which].since = (record[which].since < 3 -> record[which].since + 1 : 3)
	:: else
	fi;
#endif
	EACH(LATE)
		late[which * LATE + i].sent = 0;
		late[which * LATE + i].end = 0;
		late[which * LATE + i].owner = 0
	NEXT;
	do
	:: i < SERVERS ->
		if
		:: server[i].step != OUT && server[i].worker == which &&
		   OLDER(server[i].age) != server[i].age ->
			server[i].age = OLDER(server[i].age);
			if
			:: server[i].step == SENT ->
				FORGET_REQUEST(server[i]);
				if
				:: server[i].age == MANY || record[which].owner != NONCE(i) ->
					FORGET_READING(server[i])
				:: else
				fi
			:: else
			fi
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* Whether the registry will execute what server s sent: every write is conditional. */
#if defined(MUTANT_CLAIM_UNVERSIONED)
#define VERSION_IS_RIGHT (ME.age == 0 || ME.op == CLAIM)
#elif defined(MUTANT_EXTENSION_UNVERSIONED)
#define VERSION_IS_RIGHT (ME.age == 0 || ME.op == EXTEND)
#elif defined(MUTANT_RELEASE_UNVERSIONED)
#define VERSION_IS_RIGHT (ME.age == 0 || ME.op == RELEASE)
#else
#define VERSION_IS_RIGHT (ME.age == 0)
#endif

/* Claims and extensions are transactions which check, too, that the claim is there. A server
 * claims no worker ID whose owner has a claim. */
#ifdef SESSIONS
#define CLAIM_IS_THERE (ME.session || ME.op == RELEASE)
#define LOOKS_FREE \
	(record[w].owner == NOBODY || record[w].owner == NONCE(s) || \
	 !server[record[w].owner - 1].session)
#else
#define CLAIM_IS_THERE true
#define LOOKS_FREE true
#endif
#ifdef MUTANT_SESSION_EVENTS
#define MAY_CLAIM (LEASE.cursor == CLOSED)
#define MAY_RENEW (!ME.session && ME.step == OUT && LEASE.cursor == CLOSED)
#else
#define MAY_CLAIM true
#define MAY_RENEW (!ME.session)
#endif

#ifdef RESTORES
/*
 * Backups.
 */

/* Every write is conditional on the version of the floor, too: it must be the one that was read for
 * the claim. */
#if defined(MUTANT_FLOOR_IGNORED) || defined(MUTANT_FLOOR_UNVERSIONED)
#define FLOOR_IS_RIGHT (ME.floor_version == floor_version || ME.op == CLAIM)
#elif defined(MUTANT_EXTENSION_OVER_FLOOR)
#define FLOOR_IS_RIGHT (ME.floor_version == floor_version || ME.op == EXTEND)
#elif defined(MUTANT_RELEASE_OVER_FLOOR)
#define FLOOR_IS_RIGHT (ME.floor_version == floor_version || ME.op == RELEASE)
#else
#define FLOOR_IS_RIGHT (ME.floor_version == floor_version)
#endif
#ifdef SPAN
#define CONNECTION_IS_RIGHT true
#else
#define CONNECTION_IS_RIGHT (!ME.reconnected)
#endif

inline back_up()
{
	printf("registry: is backed up\n");
	EACH(WORKERS)
		record[i].since = 0;
		backup[i].end = record[i].end;
		backup[i].owner = record[i].owner;
		backup[i].rewritten = record[i].rewritten
	NEXT;
	backup_floor = floor;
	backup_floor_version = floor_version;
	EACH(SERVERS)
		server[i].age_if_restored = server[i].age
	NEXT
}

/* The backup cannot be restored any more. To forget what only matters if it is makes fewer
 * states. */
inline forget_backup()
{
	highest_end = 0;
	backup_floor = 0;
	backup_floor_version = 0;
	EACH(WORKERS)
		backup[i].end = 0;
		backup[i].owner = NOBODY;
		backup[i].rewritten = 0
	NEXT;
	do
	:: i < SERVERS ->
		server[i].age_if_restored = 0;
		i++
	:: else -> break
	od;
	i = 0
}

/* The backup is restored, and the floor raised; with HISTORY, later. A request that nobody waits for is forgotten: the
 * floor is not the one that its sender had read. */
inline restore(floor_)
{
	printf("registry: is restored, and the floor is %d\n", floor_);
	EACH(WORKERS)
		backup[i].rewritten = (backup[i].rewritten || record[i].since > 0);
		record[i].end = backup[i].end;
		record[i].owner = backup[i].owner;
		record[i].rewritten = backup[i].rewritten;
		record[i].since = 0
	NEXT;
	do
	:: i < WORKERS * LATE ->
		late[i].sent = 0;
		late[i].end = 0;
		late[i].owner = NOBODY;
		i++
	:: else -> break
	od;
	EACH(SERVERS)
		if
		:: server[i].step != OUT ->
			server[i].age = server[i].age_if_restored;
			server[i].reconnected = 1
		:: else
		fi
	NEXT;
	floor = floor_;
#ifdef HISTORY
	floor_version = backup_floor_version;
	restores++;
#ifndef MUTANT_HISTORY_NOT_RECORDED
	is_unrecorded = 1
#endif
#else
	floor_version = backup_floor_version + 1;
	restores++;
	if
	:: !RESTORES_LEFT -> forget_backup()
	:: else
	fi
#endif
}

#ifdef HISTORY
/* The first server that connects raises the floor, and records the history. */
inline record_history(floor_)
{
	printf("registry: its history is recorded, and the floor raised to %d\n", floor_);
	floor = floor_;
	floor_version = (floor_version + 1) % 4;
	is_unrecorded = 0;
	if
	:: !RESTORES_LEFT -> forget_backup()
	:: else
	fi
}
#endif

/* What the operator, or the first server, raises the floor to: any tick, but no lower than any end that was ever
 * written. */
#if defined(MUTANT_HISTORY_WITHOUT_FLOOR)
#define LEAST_FLOOR floor
#elif defined(MUTANT_FLOOR_TOO_LOW)
#define LEAST_FLOOR (highest_end > 0 -> highest_end - 1 : 0)
#else
#define LEAST_FLOOR highest_end
#endif
/* Whether a server that connects may send anything. */
#define HISTORY_IS_RIGHT IS_RECORDED
#else
#define FLOOR_IS_RIGHT true
#define CONNECTION_IS_RIGHT true
#define HISTORY_IS_RIGHT true
#endif

/* A request that nobody waits for any more stays on its way. If there are too many of them, one is
 * dropped, any one. */
inline leave_behind(which, end_, owner_)
{
	i = 0;
	do
	:: i < LATE && late[which * LATE + i].sent -> i++
	:: else -> break
	od;
	if
	:: i == LATE -> select(i : 0 .. LATE)
	:: else
	fi;
	if
	:: i < LATE ->
		late[which * LATE + i].sent = 1;
		late[which * LATE + i].end = end_;
		late[which * LATE + i].owner = owner_
	:: else
	fi;
	i = 0
}

proctype Registry()
{
	do
	:: atomic {
		select(k : 0 .. WORKERS * LATE - 1);
		if
		:: late[k].sent -> d_step {
			w = k / LATE;
			printf("registry: a late request arrives: worker %d, end %d, owner %d\n", w,
			       late[k].end, late[k].owner);
			FIRST(LATE_REQUEST_FOUND, late[k].owner);
			write(w, late[k].end, late[k].owner);
			w = 0
		}
		:: else
		fi;
		k = 0
	}
#ifdef MUTANT_SESSION_EVENTS
	:: d_step {
		clock < TICKS ->
		clock++
	}
#endif
#ifdef RESTORES
	:: d_step {
		RESTORES_LEFT ->
		back_up()
	}
#ifdef HISTORY
	:: d_step {
		RESTORES_LEFT ->
		restore(backup_floor)
	}
	:: atomic {
		!IS_RECORDED ->
		select(chosen : MAX(floor, LEAST_FLOOR) .. TICKS);
		skip; d_step {
			record_history(chosen);
			chosen = 0
		}
	}
#else
	:: atomic {
		RESTORES_LEFT ->
		select(chosen : LEAST_FLOOR .. TICKS);
		skip; d_step {
			restore(chosen);
			chosen = 0
		}
	}
#endif
#endif
#ifdef MUTANT_REGISTRY_ROLLED_BACK
	/* A backup from before the first claim is restored. */
	:: d_step {
		record[0].end > 0 ->
		printf("registry: rolled back\n");
		write(0, 0, NOBODY);
		write(0, 0, NOBODY)
	}
#endif
	od
}

/*
 * Steps of the keeper.
 */

inline go_out()
{
	ME.step = OUT;
	ME.op = 0;
	ME.worker = 0;
	ME.age = 0;
	ME.read_end = 0;
	ME.new_end = 0;
#ifdef RESTORES
	ME.floor_version = 0;
	ME.age_if_restored = 0;
	ME.reconnected = 0
#endif
}

inline hold()
{
	ME.step = HELD;
	ME.op = 0;
	ME.read_end = 0;
	ME.new_end = 0
}

/* Threads that still look at a lease as it was. Their swap will fail, which changes nothing, so
 * they may as well have given up. */
inline forget_views(from_step, lease_)
{
#if THREADS > 0
	EACH(THREADS)
		if
		:: thread[s * THREADS + i].step >= from_step &&
		   thread[s * THREADS + i].lease == lease_ ->
			thread[s * THREADS + i].step = IDLE;
			thread[s * THREADS + i].lease = 0;
			thread[s * THREADS + i].end = 0
		:: else
		fi
	NEXT
#else
	skip
#endif
}

/* Sends a request for the version that is known. */
inline send(op_, end_)
{
	ME.step = SENT;
	ME.op = op_;
	ME.new_end = end_;
	if
	:: ME.age != 0 -> FORGET_REQUEST(ME)
	:: else
	fi
}

/* Closes a lease for good. */
inline retire(lease_)
{
	ME.lease[lease_].cursor = CLOSED;
	ME.lease[lease_].worker = 0;
	ME.lease[lease_].end = 0;
#ifdef MUTANT_RELEASE_BELOW_FIRST
	ME.drawn = 0;
#endif
	forget_views(CURSOR_READ, lease_)
}

/* Where the lease of a claim begins: after the end, and the floor, that was read. Without reclaim, also after
 * what this process issued before. */
#if defined(MUTANT_OLD_END_REUSED)
#define FIRST_TICK MAX(ME.read_end, 1)
#elif defined(ORDER) && !defined(MUTANT_ORDER_FORGOTTEN)
#define FIRST_TICK MAX(ME.read_end + 1, TICK(ME.last) + 1)
#else
#define FIRST_TICK (ME.read_end + 1)
#endif

/* The lease of the claim becomes the one that threads find. Its place is that of an older lease,
 * retired long ago. Who still points to that one would find it closed, so they may as well have
 * given up. */
inline publish()
{
#if THREADS > 0
	forget_views(LEASE_READ, 1 - ME.published);
	ME.published = 1 - ME.published;
#endif
	LEASE.worker = ME.worker;
	LEASE.end = ME.new_end;
	LEASE.cursor = CURSOR(FIRST_TICK, 0) - 1;
	printf("server %d: its lease on worker %d is tick %d to %d\n", s, LEASE.worker, FIRST_TICK,
	       LEASE.end)
}

/* Of its record, the version that it made. */
inline know_next_version()
{
	ME.age = NEWER(ME.age);
#ifdef RESTORES
	if
	:: RESTORES_LEFT -> ME.age_if_restored = NEWER(ME.age_if_restored)
	:: else
	fi
#endif
}

/* The request of this server was executed, as far as it knows, and what it holds ends at end_. */
inline succeed(end_)
{
	if
	:: ME.op == CLAIM ->
		ME.new_end = end_;
		ME.op = 0;
#if THREADS > 0
		ME.step = GAINED
#else
		/* One step, as the draws are: between retiring and publishing there is nothing to
		 * draw from. */
		retire(ME.published);
		publish();
		hold()
#endif
	:: ME.op == EXTEND ->
		LEASE.end = MAX(LEASE.end, end_);
		hold()
	:: ME.op == RELEASE ->
#ifdef MUTANT_RELEASE_BEFORE_RETIRING
		retire(ME.published);
#endif
		go_out()
	fi
}

/* What a claim reserves. It finds the worker ID free if its end is past, and the floor, by a reading
 * of the clock, and from the same reading it takes the new end: so that is any tick after both. */
#if defined(RESTORES) && !defined(MUTANT_FLOOR_IGNORED)
#define READ_END MAX(record[w].end, floor)
#else
#define READ_END record[w].end
#endif
#ifdef MUTANT_CLOCK_READ_AGAIN_BY_CLAIM
#define LEAST_CLAIM 1
#else
#define LEAST_CLAIM (READ_END + 1)
#endif

#ifdef MUTANT_SESSION_EVENTS
/* Another design: who finds no claim of another has the worker ID, from the next tick on, until it
 * is told that its own session expired. To be fair to it, the clock is right, and the same for
 * all. */
#undef READ_END
#define READ_END clock
#define choose_claim_end() chosen = TICKS
#else
#define choose_claim_end() select(chosen : LEAST_CLAIM .. TICKS)
#endif

/* An extension takes the larger of the end that it knows and now + length. */
#ifdef MUTANT_EXTENSION_LOWERS
#define LEAST_EXTENSION 1
#else
#define LEAST_EXTENSION LEASE.end
#endif

/* Where a release sets the end to: max(first tick - 1, tick of the last ID). If there was no ID,
 * the cursor stands before the first tick; so it has both. */
#ifdef MUTANT_RELEASE_BELOW_FIRST
#define RELEASE_END (ME.drawn -> TICK(LEASE.cursor) : 0)
#else
#define RELEASE_END TICK(LEASE.cursor)
#endif

/* Of that the record says nothing: another may have claimed the worker ID in what was lost, and
 * still serve it. It is so if this server's end was not past, by any clock, when the registry was
 * restored: nobody claims before. A server that never goes on needs no such rule. */
#ifdef MUTANT_OVERTAKEN_GOES_ON
#define NOBODY_ELSE_HAD_IT true
#else
#define NOBODY_ELSE_HAD_IT (!record[ME.worker].rewritten)
#endif

proctype Keeper(byte s)
{
	do
	/* Reads a record and sends a claim for it. One step: a pause in between is a request that
	 * is slow. The reading may be out of date, which makes a request that fails; but it must
	 * not be older than what this process itself has written there and got confirmed. */
	:: atomic {
		ME.step == OUT && MAY_CLAIM ->
		select(w : 0 .. WORKERS - 1);
		if
		:: READ_END < TICKS && LOOKS_FREE && HISTORY_IS_RIGHT ->
			choose_claim_end();
			skip; d_step {
				printf("server %d: reads of worker %d: end %d, owner %d\n", s, w,
				       record[w].end, record[w].owner);
				printf("server %d: claims worker %d up to %d\n", s, w, chosen);
				ME.worker = w;
				ME.read_end = READ_END;
#ifdef RESTORES
				ME.floor_version = floor_version;
				ME.age_if_restored = (RESTORES_LEFT -> (8 - record[w].since) % 8 : 0);
				FORGET_KEPT;
#endif
				send(CLAIM, chosen)
			}
		:: else
		fi;
		w = 0;
		chosen = 0
	}

#ifdef MUTANT_STALE_CLAIM
	:: d_step {
		ME.step == OUT && record[0].owner == NONCE(s) && record[0].end > 0 ->
		printf("server %d: reads of worker 0 what was there before its own write: end %d\n",
		       s, record[0].previous_end);
		ME.age = 1;
		ME.read_end = record[0].previous_end;
		send(CLAIM, TICKS)
	}
#endif

	/* Sends an extension, from what it knows. */
	:: atomic {
		ME.step == HELD && CONNECTION_IS_RIGHT ->
		select(chosen : LEAST_EXTENSION .. TICKS);
		skip; d_step {
			printf("server %d: extends worker %d to %d\n", s, ME.worker, chosen);
			send(EXTEND, chosen);
			chosen = 0
		}
	}

	/* Retires the lease and sends the release. One step: nobody else sees the lease. It may
	 * go on afterwards and claim again, as with reclaim; one that stops is one that does not. */
	:: d_step {
		ME.step == HELD && CONNECTION_IS_RIGHT ->
		chosen = RELEASE_END;
		printf("server %d: hands worker %d back, to %d\n", s, ME.worker, chosen);
		send(RELEASE, chosen);
		chosen = 0;
#ifdef MUTANT_RELEASE_RESUMED
		ME.saved_cursor = LEASE.cursor;
#endif
#ifndef MUTANT_RELEASE_BEFORE_RETIRING
		retire(ME.published)
#endif
	}

#ifndef MUTANT_SESSION_EVENTS
	/* Wants another worker ID, or takes the reservation for lost: serves it out, but never
	 * extends it. (Who retires a lost lease at once is one that draws nothing more.) */
	:: d_step {
		ME.step == HELD ->
		printf("server %d: gives up the reservation of worker %d\n", s, ME.worker);
		go_out()
	}
#endif

#ifdef RESTORES
	/* After a restore there is a new connection, and what is held is read before anything is
	 * written. If the record is what it was, and nobody else can have claimed the worker ID in
	 * what was lost, then it goes on, under the new floor. */
	:: d_step {
		ME.step == HELD && ME.reconnected && ME.age == 0 &&
		record[ME.worker].owner == NONCE(s) && record[ME.worker].end == LEASE.end &&
		NOBODY_ELSE_HAD_IT && HISTORY_IS_RIGHT ->
		printf("server %d: finds its record as it was\n", s);
		FIRST(DRAW_FROM_KEPT, NONCE(s));
		ME.floor_version = floor_version;
		ME.reconnected = 0
	}
#endif

	/* The registry executes the request. */
	:: d_step {
		ME.step == SENT && VERSION_IS_RIGHT && CLAIM_IS_THERE && FLOOR_IS_RIGHT &&
		CONNECTION_IS_RIGHT ->
		printf("registry: executes the request of server %d: worker %d, end %d\n", s,
		       ME.worker, ME.new_end);
		if
		:: ME.op == CLAIM && record[ME.worker].owner != NONCE(s) ->
			THEN(CLAIM_OVER_THE_DEAD, seen != 0 && seen != NONCE(s));
			THEN(CLAIM_AFTER_RELEASE, seen != 0 && seen != NONCE(s));
			FIRST(CLAIM_OVER_THE_LIVING, record[ME.worker].owner)
		:: ME.op == RELEASE -> FIRST(CLAIM_AFTER_RELEASE, NONCE(s))
		:: else
		fi;
#ifdef RESTORES
		if
		:: ME.op == CLAIM && restores > 0 -> FIRST(DRAW_AFTER_QUARANTINE, NONCE(s))
		:: else
		fi;
#endif
		ME.step = DONE;
		write(ME.worker, ME.new_end, (ME.op == RELEASE -> NOBODY : NONCE(s)))
	}

	/* The reply comes. The version known is now the one that the request made. */
	:: d_step {
		ME.step == DONE ->
		printf("server %d: has the reply\n", s);
		know_next_version();
		if
		:: ME.op == EXTEND && ME.new_end > LEASE.end ->
			FIRST(DRAW_FROM_EXTENSION, NONCE(s))
		:: else
		fi;
		succeed(ME.new_end)
	}

	/* The request or the reply was lost, the session expired, or the version was bad: it waits
	 * no longer, and reads again. One step: a pause in between is a longer wait. */
	:: atomic {
		ME.step == SENT || ME.step == DONE ->
		if
		:: ME.step == SENT && ME.age == 0 && FLOOR_IS_RIGHT && CONNECTION_IS_RIGHT ->
			leave_behind(ME.worker, ME.new_end,
				     (ME.op == RELEASE -> NOBODY : NONCE(s)))
		:: else
		fi;
		printf("server %d: in doubt, reads of worker %d: end %d, owner %d\n", s, ME.worker,
		       record[ME.worker].end, record[ME.worker].owner);
		if
		/* A release is never resumed, whatever came of it. */
		:: d_step {
			ME.op == RELEASE ->
#ifdef MUTANT_RELEASE_RESUMED
			if
			:: ME.age == 0 ->
				printf("server %d: serves again\n", s);
				LEASE.worker = ME.worker;
				LEASE.end = record[ME.worker].end;
				LEASE.cursor = ME.saved_cursor;
				hold()
			:: else -> go_out()
			fi
#else
			succeed(0)
#endif
		}
#ifdef MUTANT_UNCONFIRMED_COUNTED
		:: d_step {
			ME.op == EXTEND && ME.age == 0 ->
			succeed(ME.new_end)
		}
#endif
		/* Not written: starts over from the reading. This may happen although it was
		 * written, or something else was: the reading may be out of date. */
		:: d_step {
			ME.op == CLAIM ->
			go_out()
		}
		:: d_step {
			ME.op == EXTEND ->
			hold()
		}
		/* Mine, in the version that I would have made: what was read is what I hold. */
		:: d_step {
			(ME.op == CLAIM || ME.op == EXTEND) && ME.age == 1 &&
			record[ME.worker].owner == NONCE(s) ->
			printf("server %d: finds it its own\n", s);
			know_next_version();
			THEN(LATE_REQUEST_FOUND, seen == NONCE(s));
			if
			:: ME.op == CLAIM -> FIRST(DRAW_FROM_FOUND_CLAIM, NONCE(s))
			:: ME.op == EXTEND && record[ME.worker].end > LEASE.end ->
				FIRST(DRAW_FROM_FOUND_END, NONCE(s))
			:: else
			fi;
#ifdef MUTANT_ATTEMPT_ADOPTED
			succeed(ME.new_end)
#else
			succeed(record[ME.worker].end)
#endif
		}
		/* Anything else: lost. */
		:: d_step {
			(ME.op == CLAIM || ME.op == EXTEND) &&
			(ME.age > 1 ||
			 (ME.age == 1 && record[ME.worker].owner != NONCE(s))) ->
			printf("server %d: finds it lost\n", s);
#ifdef MUTANT_OLD_READING_RETRIED
			if
			:: ME.op == CLAIM ->
				ME.step = SENT;
				ME.age = 0
			:: else -> go_out()
			fi
#else
			go_out()
#endif
		}
		fi
	}

#if THREADS > 0
	/* After a claim: first the lease before it is retired, then the new one is published. */
	:: d_step {
		ME.step == GAINED ->
#ifdef MUTANT_PUBLISHED_BEFORE_RETIRING
		publish();
#else
		retire(ME.published);
#endif
		ME.step = CLEARED
	}
	:: d_step {
		ME.step == CLEARED ->
#ifdef MUTANT_PUBLISHED_BEFORE_RETIRING
		retire(1 - ME.published);
#else
		publish();
#endif
		hold()
	}
#endif

#ifdef SESSIONS
	/* The session expires, at any time, and the server need not know. */
	:: d_step {
		ME.session ->
		printf("registry: the session of server %d expires\n", s);
		ME.session = 0
	}
	/* It makes another claim, of the same nonce. */
	:: d_step {
		MAY_RENEW ->
		printf("server %d: has a session\n", s);
		ME.session = 1
	}
#endif
#ifdef MUTANT_SESSION_EVENTS
	:: d_step {
		!ME.session && LEASE.cursor != CLOSED ->
		printf("server %d: is told that its session expired\n", s);
		retire(ME.published);
		go_out()
	}
#endif

	/* Crashes, and starts again, when it likes, as another process. */
	:: atomic {
		RUNS ->
		printf("server %d: crashes\n", s);
		if
		:: ME.step == SENT && ME.age == 0 && FLOOR_IS_RIGHT && CONNECTION_IS_RIGHT ->
			leave_behind(ME.worker, ME.new_end,
				     (ME.op == RELEASE -> NOBODY : NONCE(s)))
		:: else
		fi;
		skip; d_step {
			if
			:: ME.step == HELD && ME.age == 0 ->
				FIRST(CLAIM_OVER_THE_DEAD, NONCE(s))
			:: else
			fi;
			FORGET_SEEN;
			go_out();
			retire(0);
#if THREADS > 0
			retire(1);
			forget_views(LEASE_READ, 0);
			forget_views(LEASE_READ, 1);
			ME.published = 0;
#endif
#ifdef ORDER
			ME.last = 0;
			ME.last_worker = 0;
#endif
#ifdef SESSIONS
			ME.session = 0;
#endif
#ifndef MUTANT_NONCE_REUSED
			do
			:: i < WORKERS ->
				if
				:: record[i].owner == NONCE(s) -> record[i].owner = NOBODY
				:: else
				fi;
#ifdef RESTORES
				if
				:: backup[i].owner == NONCE(s) -> backup[i].owner = NOBODY
				:: else
				fi;
#endif
				i++
			:: else -> break
			od;
			EACH(WORKERS * LATE)
				if
				:: late[i].owner == NONCE(s) -> late[i].owner = NOBODY
				:: else
				fi
			NEXT
#endif
		}
	}
	od
}

/*
 * Steps of a thread that draws IDs.
 */

/* Where the run of IDs begins, by any clock: at the cursor after the last, or in a later tick, at
 * any sequence (--sequence-start). What the clock reads below the cursor makes no difference. */
inline choose_run(cursor_)
{
#ifdef MUTANT_SESSION_EVENTS
	now = clock;
#else
	select(now : TICK(cursor_) .. TICKS);
#endif
	if
	:: now <= TICK(cursor_) -> first = cursor_ + 1
	:: else ->
		select(start : 0 .. SEQUENCES - 1);
		first = MAX(cursor_ + 1, CURSOR(now, start))
	fi;
	select(count : 1 .. BATCH);
	last = first + count - 1
}

/* Whether the run is reserved: it is the last ID that must not pass the end. */
#ifdef MUTANT_FIRST_CHECKED
#define FITS(end_) (TICK(first) <= (end_) && last <= LAST_CURSOR)
#elif defined(MUTANT_SESSION_EVENTS)
#define FITS(end_) (TICK(last) <= (end_) && TICK(last) <= clock)
#else
#define FITS(end_) (TICK(last) <= (end_))
#endif

/* The clock is read once a look, and the run that was checked is the run that is drawn. */
#ifdef MUTANT_CLOCK_READ_AGAIN_BY_DRAW
#define READ_AGAIN(cursor_) select(now : TICK(cursor_) .. TICKS); \
	first = MAX(cursor_ + 1, CURSOR(now, 0)); last = first
#else
#define READ_AGAIN(cursor_) skip
#endif

inline draw(lease_, end_)
{
	choose_run(ME.lease[lease_].cursor);
	if
	:: FITS(end_) ->
		READ_AGAIN(ME.lease[lease_].cursor);
		skip; d_step {
			ME.lease[lease_].cursor = last;
			forget_views(CURSOR_READ, lease_);
			issue(s, ME.lease[lease_].worker, first, last)
		}
	:: else
	fi;
	now = 0;
	start = 0;
	count = 0;
	first = 0;
	last = 0
}

#if THREADS > 0
#define MINE thread[s * THREADS + t]

/*
 * As generator_draw() does it: the published lease, its cursor, its end, then the swap, each a step
 * of its own. The value of the cursor need not be kept: once another has moved it, the swap can
 * only fail (forget_views()), as cursors never go back. The loop around a failed swap is the loop
 * of this process.
 */
proctype Drawer(byte s; byte t)
{
	do
	:: d_step {
		MINE.step == IDLE && LEASE.cursor != CLOSED ->
		MINE.step = LEASE_READ;
		MINE.lease = ME.published
	}
	:: d_step {
		MINE.step == LEASE_READ ->
		if
		:: ME.lease[MINE.lease].cursor == CLOSED ->
			MINE.step = IDLE;
			MINE.lease = 0
		:: else -> MINE.step = CURSOR_READ
		fi
	}
	:: d_step {
		MINE.step == CURSOR_READ ->
		MINE.step = END_READ;
		MINE.end = ME.lease[MINE.lease].end
	}
	:: atomic {
		MINE.step == END_READ ->
		k = MINE.lease;
		draw(k, MINE.end);
		k = 0;
		skip; d_step {
			MINE.step = IDLE;
			MINE.lease = 0;
			MINE.end = 0
		}
	}
	od
}
#else
/*
 * A draw in one step. Nothing is lost: if the swap succeeds, then lease and cursor are still what
 * they were when they were read, and the end has only grown. So what is drawn in single steps
 * could have been drawn in one, at the time of the swap. That also goes for several threads.
 * (THREADS > 0 does not rest on this.)
 */
proctype Drawer(byte s)
{
	do
	:: atomic {
		LEASE.cursor != CLOSED && LEASE.cursor < CURSOR(LEASE.end, SEQUENCES - 1) ->
		draw(0, LEASE.end)
	}
	od
}
#endif

init {
	byte s;
	byte t;

	atomic {
#ifdef UNIQUE
		select(watched : CURSOR(1, 0) .. LAST_CURSOR);
#endif
		run Registry();
		do
		:: s < SERVERS ->
			ME.lease[0].cursor = CLOSED;
#if THREADS > 0
			ME.lease[1].cursor = CLOSED;
#endif
			run Keeper(s);
#if THREADS > 0
			t = 0;
			do
			:: t < THREADS ->
				run Drawer(s, t);
				t++
			:: else -> break
			od;
#else
			run Drawer(s);
#endif
			s++
		:: else -> break
		od;
		s = 0;
		t = 0
	}
}
