/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options-text.h"

/* (nullable): of one that is a word, and no number. */
static const char *find_word(const OptionSpec *spec, gint64 value)
{
	for (const OptionWord *one = spec->words; one != NULL && one->word != NULL; one++) {
		if (one->value == value)
			return one->word;
	}
	return NULL;
}

static char *number_text(const OptionSpec *spec, gint64 value)
{
	const char *word = find_word(spec, value);

	if (word != NULL)
		return g_strdup(word);
	/* one that may be missing is below all that may be given */
	return value >= spec->min ? g_strdup_printf("%" G_GINT64_FORMAT, value) : NULL;
}

static const char *address_text(gconstpointer address)
{
	return ((const Address *)address)->text;
}

static const char *host_text(gconstpointer host)
{
	return host;
}

static const char *target_text(gconstpointer target)
{
	return ((const AuditTarget *)target)->text;
}

/* NULL: there are none. */
static char *list_text(const GPtrArray *items, const char *between,
		       const char *(*text_of)(gconstpointer item))
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < items->len; i++)
		g_string_append_printf(text, "%s%s", i > 0 ? between : "",
				       text_of(items->pdata[i]));
	return g_string_free(text, items->len == 0);
}

char *options_text_of(const Options *self, const OptionSpec *spec)
{
	gconstpointer field = G_STRUCT_MEMBER_P(self, spec->offset);

	switch (spec->type) {
	case OPTION_NUMBER:
		return number_text(spec, *(const gint64 *)field);
	case OPTION_FLAG:
		return g_strdup(*(const gboolean *)field ? "true" : "false");
	case OPTION_MODE:
		return g_strdup_printf("%04o", *(const guint *)field);
	case OPTION_NAME:
	case OPTION_PATH:
		return g_strdup(*(char *const *)field);
	case OPTION_ADDRESS:
	case OPTION_ADMIN:
		return *(Address *const *)field != NULL
			       ? g_strdup(address_text(*(Address *const *)field))
			       : NULL;
	case OPTION_ADDRESSES:
		return list_text(*(GPtrArray *const *)field, ";", address_text);
	case OPTION_SERVERS:
		return *(GPtrArray *const *)field != NULL
			       ? list_text(*(GPtrArray *const *)field, ",", address_text)
			       : NULL;
	case OPTION_TARGETS:
		return list_text(*(GPtrArray *const *)field, ";", target_text);
	case OPTION_HOSTS:
		return list_text(*(GPtrArray *const *)field, ";", host_text);
	case OPTION_ZOOKEEPER:
		return *(ZookeeperHosts *const *)field != NULL
			       ? g_strdup((*(ZookeeperHosts *const *)field)->text)
			       : NULL;
	case OPTION_LAYOUT:
		return layout_to_string(field);
	case OPTION_ALLOW:
		return *(AllowList *const *)field != NULL
			       ? g_strdup(allow_list_text(*(AllowList *const *)field))
			       : NULL;
	case OPTION_CHOICE:
		return g_strdup(spec->choices[*(const guint *)field]);
	}
	g_assert_not_reached();
}
