// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.time.Instant;
import java.util.Locale;

/** What IDs are: their parts, the IDs of a span of time, and text forms that sort as they do. */
public final class Ids {
	private static final String LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	private static final Form BASE62 =
		new Form("base62", "0123456789" + LETTERS + LETTERS.toLowerCase(Locale.ROOT), 11);
	private static final Form CROCKFORD =
		new Form("Crockford's base 32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13);

	private Ids() {
	}

	/** The time, datacenter, worker and sequence of an ID of the layout twitter; others have
	 * {@link Layout#decode}. */
	public static Layout.Parts decode(long id) {
		return Layout.TWITTER.decode(id);
	}

	/** The lowest and the highest ID of a span of time, with both its ends: see
	 * {@link Layout#range}. */
	public static Layout.Range range(Instant from, Instant to) {
		return Layout.TWITTER.range(from, to);
	}

	/** 11 digits: figures, capital letters, small letters. */
	public static String toBase62(long id) {
		return BASE62.write(id);
	}

	/** Zeros in front may be left out.
	 *
	 * @throws IllegalArgumentException if it is no ID */
	public static long fromBase62(String text) {
		return BASE62.read(text, text);
	}

	/** 13 digits of Crockford's base 32. */
	public static String toCrockford(long id) {
		return CROCKFORD.write(id);
	}

	/** In either case; I and L are 1, O is 0.
	 *
	 * @throws IllegalArgumentException if it is no ID */
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
				throw new IllegalArgumentException(id + " is no ID: 0 to " + Long.MAX_VALUE);
			for (int i = width; i-- > 0; id /= digits.length())
				text[i] = digits.charAt((int) (id % digits.length()));
			return new String(text);
		}

		long read(String plain, String given) {
			long id = 0;

			if (plain.isEmpty() || plain.length() > width)
				throw noId(given);
			for (int i = 0; i < plain.length(); i++) {
				int digit = digits.indexOf(plain.charAt(i));
				if (digit < 0 || id > (Long.MAX_VALUE - digit) / digits.length())
					throw noId(given);
				id = id * digits.length() + digit;
			}
			return id;
		}

		private IllegalArgumentException noId(String given) {
			return new IllegalArgumentException("\""
				+ given.substring(0, Math.min(given.length(), 40)) + "\" is no ID in " + name
				+ ": 1 to " + width + " of its digits, " + write(Long.MAX_VALUE) + " at most");
		}
	}
}
