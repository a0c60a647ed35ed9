/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/store.h"

void store_record_free(StoreRecord *self)
{
	if (self == NULL)
		return;
	g_free(self->key);
	g_free(self->data);
	g_free(self);
}

void store_message_free(StoreMessage *self)
{
	if (self == NULL)
		return;
	g_free(self->key);
	g_free(self->text);
	g_free(self->history);
	g_free(self->session);
	g_clear_pointer(&self->records, g_ptr_array_unref);
	g_free(self);
}
