/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "ctl/status.h"

/* Above these: the number of the signal that waits for the release. */
enum { FREE = 0, HELD = -1, ENDING = -2 };

static atomic_int state = FREE;

static struct {
	int descriptor;
	char *text;
} last_words;

/* Only what a handler may call, in these. */

static void say_last_words(void)
{
	const char *text = last_words.text;
	gsize left = text != NULL ? strlen(text) : 0;

	while (left > 0) {
		ssize_t written = write(last_words.descriptor, text, left);

		if (written <= 0)
			break;
		text += written;
		left -= (gsize)written;
	}
}

void ctl_interrupt_end(int number, gboolean wanted)
{
	sigset_t set;

	if (wanted)
		say_last_words();
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	/* where it is one that nobody dies of */
	_exit(CTL_FAILED);
}

/* In any thread; once for each signal. */
static void on_signal(int number)
{
	int seen = atomic_load(&state);

	while (seen == FREE || seen == HELD) {
		if (atomic_compare_exchange_weak(&state, &seen, seen == FREE ? ENDING : number)) {
			if (seen == FREE)
				ctl_interrupt_end(number, TRUE);
			return;
		}
	}
	/* the other one does not come to its end */
	ctl_interrupt_end(number, FALSE);
}

void ctl_interrupt_catch(void)
{
	static const int NUMBERS[] = {SIGINT, SIGTERM};
	/* so that a second one is not heard here, even while the first is */
	struct sigaction action = {
		.sa_handler = on_signal,
		.sa_flags = SA_RESTART | SA_RESETHAND | SA_NODEFER,
	};

	sigemptyset(&action.sa_mask);
	for (gsize i = 0; i < G_N_ELEMENTS(NUMBERS); i++) {
		struct sigaction before;

		sigaction(NUMBERS[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(NUMBERS[i], &action, NULL);
	}
}

void ctl_interrupt_hold(void)
{
	int seen = FREE;

	if (atomic_compare_exchange_strong(&state, &seen, HELD))
		return;
	/* another thread is ending the program */
	while (seen == ENDING)
		pause();
}

void ctl_interrupt_release(void)
{
	int seen = HELD;

	if (!atomic_compare_exchange_strong(&state, &seen, FREE) && seen > 0)
		ctl_interrupt_end(seen, TRUE);
}

void ctl_interrupt_set_last_words(int descriptor, char *text)
{
	g_free(last_words.text);
	last_words.descriptor = descriptor;
	last_words.text = text;
}
