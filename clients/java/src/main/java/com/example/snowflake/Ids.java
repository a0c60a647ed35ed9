// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.time.Instant;
import java.util.Locale;

/** Decodes IDs, and converts them to text forms that sort like the IDs. For layouts other than
 * Twitter's, see {@link Layout}. */
public final class Ids {
	private static final String LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	private static final Form BASE62 =
		new Form("base62", "0123456789" + LETTERS + LETTERS.toLowerCase(Locale.ROOT), 11);
	private static final Form CROCKFORD =
		new Form("Crockford's base 32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13);

	private Ids() {
	}

	/** Returns the fields of an ID.
	 *
	 * @param id the ID
	 * @return its time, datacenter, worker and sequence */
	public static Layout.Parts decode(long id) {
		return Layout.TWITTER.decode(id);
	}

	/** Returns the lowest and the highest ID in a time span; see {@link Layout#range}.
	 *
	 * @param from the first instant
	 * @param to the last instant
	 * @return the range
	 * @throws IllegalArgumentException if the span is empty, or completely outside the
	 * layout's range */
	public static Layout.Range range(Instant from, Instant to) {
		return Layout.TWITTER.range(from, to);
	}

	/** Returns 11 digits: 0-9, A-Z, a-z.
	 *
	 * @param id the ID
	 * @return the text
	 * @throws IllegalArgumentException if the number is negative */
	public static String toBase62(long id) {
		return BASE62.write(id);
	}

	/** Parses an ID, with or without leading zeros.
	 *
	 * @param text 1 to 11 digits
	 * @return the ID
	 * @throws IllegalArgumentException if the text is not an ID */
	public static long fromBase62(String text) {
		return BASE62.read(text, text);
	}

	/** Returns 13 digits of Crockford's base 32.
	 *
	 * @param id the ID
	 * @return the text
	 * @throws IllegalArgumentException if the number is negative */
	public static String toCrockford(long id) {
		return CROCKFORD.write(id);
	}

	/** Parses an ID in upper or lower case, with or without leading zeros; I and L count as 1, and O
	 * counts as 0.
	 *
	 * @param text 1 to 13 digits
	 * @return the ID
	 * @throws IllegalArgumentException if the text is not an ID */
	public static long fromCrockford(String text) {
		StringBuilder plain = new StringBuilder();

		for (char letter : text.toCharArray()) {
			char upper = letter >= 'a' && letter <= 'z' ? (char) (letter - 'a' + 'A') : letter;
			plain.append(upper == 'O' ? '0' : upper == 'I' || upper == 'L' ? '1' : upper);
		}
		return CROCKFORD.read(plain.toString(), text);
	}

	private record Form(String name, String digits, int width) {
		String write(long id) {
			char[] text = new char[width];

			if (id < 0)
				throw new IllegalArgumentException(id + " is not an ID: must be 0 to " + Long.MAX_VALUE);
			for (int i = width; i-- > 0; id /= digits.length())
				text[i] = digits.charAt((int) (id % digits.length()));
			return new String(text);
		}

		long read(String plain, String given) {
			long id = 0;

			if (plain.isEmpty() || plain.length() > width)
				throw notAnId(given);
			for (int i = 0; i < plain.length(); i++) {
				int digit = digits.indexOf(plain.charAt(i));
				if (digit < 0 || id > (Long.MAX_VALUE - digit) / digits.length())
					throw notAnId(given);
				id = id * digits.length() + digit;
			}
			return id;
		}

		private IllegalArgumentException notAnId(String given) {
			return new IllegalArgumentException("\""
				+ given.substring(0, Math.min(given.length(), 40)) + "\" is not an ID in " + name
				+ ": must be 1 to " + width + " of its digits, at most " + write(Long.MAX_VALUE));
		}
	}
}
