/* SPDX-License-Identifier: Apache-2.0 */
#include "gen-c_glib/generated-types.h"
#include "sf_snowflake_extended.h"
#include "tests/unit/unit-test.h"

typedef struct {
	SfWorker parent;
} DerivedWorker;

typedef struct {
	SfWorkerClass parent;
} DerivedWorkerClass;

static GType derived_worker_get_type(void);
G_DEFINE_FINAL_TYPE(DerivedWorker, derived_worker, SF_TYPE_WORKER)

static void derived_worker_class_init(DerivedWorkerClass *klass G_GNUC_UNUSED)
{
}

static void derived_worker_init(DerivedWorker *self G_GNUC_UNUSED)
{
}

static void note_end(gpointer user_data, GObject *object G_GNUC_UNUSED)
{
	*(gboolean *)user_data = TRUE;
}

static void make_and_free(GType type)
{
	GObject *object = g_object_new(type, "nonce", "n", NULL);
	gboolean ended = FALSE;

	g_object_weak_ref(object, note_end, &ended);
	g_object_unref(object);
	g_assert_true(ended);
}

/* The generated types, and a type derived from one after the finalizers were fixed. */
TEST("/generated-types/finalize", test_finalize)
{
	generated_types_init();
	make_and_free(SF_TYPE_WORKER);
	make_and_free(derived_worker_get_type());
}
