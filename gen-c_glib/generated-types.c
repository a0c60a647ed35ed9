/* SPDX-License-Identifier: Apache-2.0 */
#include "gen-c_glib/generated-types.h"

#include <pthread.h>
#include <thrift/c_glib/thrift_application_exception.h>

#include "sf_snowflake_extended.h"

static GType (*const get_types[])(void) = {
	thrift_application_exception_get_type,
#include "generated-types.inc" /* every generated get_type function, a line each */
};

typedef struct {
	GObjectClass *class;
	void (*finalize)(GObject *object);
} Generated;

/* Written once by init_once(), only read afterwards. */
static Generated generated[G_N_ELEMENTS(get_types)];
static GObjectClass *object_class;

/* The entry of a generated class; NULL if it is not one. */
static const Generated *find(gpointer class)
{
	for (gsize i = 0; i < G_N_ELEMENTS(generated); i++)
		if (generated[i].class == class)
			return &generated[i];
	return NULL;
}

static void finalize_and_chain_up(GObject *object)
{
	gpointer class = G_OBJECT_GET_CLASS(object);
	const Generated *found = NULL;

	/* a class derived from a generated one has inherited this function */
	for (; class != NULL && found == NULL; class = g_type_class_peek_parent(class))
		found = find(class);
	if (found != NULL)
		found->finalize(object);
	object_class->finalize(object);
}

static void init_once(void)
{
	object_class = g_type_class_ref(G_TYPE_OBJECT);
	for (gsize i = 0; i < G_N_ELEMENTS(get_types); i++) {
		GType type = get_types[i]();

		if (G_TYPE_IS_INTERFACE(type)) {
			g_type_default_interface_ref(type);
			continue;
		}

		GObjectClass *class = g_type_class_ref(type);

		if (!g_type_is_a(type, THRIFT_TYPE_STRUCT))
			continue;
		generated[i] = (Generated){class, class->finalize};
		class->finalize = finalize_and_chain_up;
	}
}

void generated_types_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
}
