// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.junit.Test;

public class IdsTest {
	private static final Layout SECONDS = new Layout(1_474_300_800_000L, 29, 0, 21, 13, 1000);
	private static final Instant TIME = Instant.ofEpochMilli(1_700_000_000_000L);
	private static final long ID = 1_724_551_110_456_385_539L; // of that time: 1, 2, 3

	private static int number(Map<String, Object> of, String name) {
		return ((Long) of.get(name)).intValue();
	}

	private static Layout layout(Map<String, Object> of) {
		Map<String, Object> bits = Json.object(of.get("bits"));

		return new Layout((Long) of.get("epoch_ms"), number(bits, "time"), number(bits, "datacenter"),
			number(bits, "worker"), number(bits, "sequence"), number(of, "time_unit_ms"));
	}

	private static void assertDecodes(Layout layout, Map<String, Object> vector) {
		long id = Long.parseLong((String) vector.get("id"));
		Instant time = Instant.ofEpochMilli((Long) vector.get("timestamp_ms"));

		assertEquals(new Layout.Parts(time, number(vector, "datacenter_id"),
			number(vector, "worker_id"), number(vector, "sequence")), layout.decode(id));
		Layout.Range range = layout.range(time, time);
		assertTrue(range.first() <= id && id <= range.last());
		assertEquals(time, layout.decode(range.first()).time());
		assertEquals(time, layout.decode(range.last()).time());
	}

	@Test
	public void layouts() throws IOException {
		Map<String, Object> vectors = Support.vectors("layouts.json");
		Map<String, Object> twitter = Json.object(vectors.get("twitter"));
		List<Object> ids = Json.list(twitter.get("ids"));
		List<Object> others = Json.list(vectors.get("other_layouts"));

		assertEquals(Layout.TWITTER, layout(twitter));
		assertTrue(ids.size() >= 5 && others.size() >= 4);
		ids.forEach(vector -> assertDecodes(Layout.TWITTER, Json.object(vector)));
		others.forEach(vector -> assertDecodes(layout(Json.object(vector)), Json.object(vector)));
	}

	@Test
	public void texts() throws IOException {
		List<Object> ids = Json.list(Support.vectors("text.json").get("ids"));

		assertTrue(ids.size() >= 8);
		for (Object one : ids) {
			Map<String, Object> vector = Json.object(one);
			long id = Long.parseLong((String) vector.get("id"));
			String base62 = (String) vector.get("base62");
			String crockford = (String) vector.get("base32_crockford");
			assertEquals(base62, Ids.toBase62(id));
			assertEquals(crockford, Ids.toCrockford(id));
			assertEquals(id, Ids.fromBase62(base62));
			assertEquals(id, Ids.fromBase62(base62.replaceFirst("^0{1,10}", "")));
			assertEquals(id, Ids.fromCrockford(crockford));
			assertEquals(id, Ids.fromCrockford(crockford.toLowerCase(Locale.ROOT)));
			assertEquals(id, Ids.fromCrockford(crockford.replace('0', 'O').replace('1', 'l')));
			assertEquals(id, Ids.fromCrockford(crockford.replace('0', 'o').replace('1', 'I')));
		}
	}

	@Test
	public void invalidTexts() throws IOException {
		Map<String, Object> reject = Json.object(Support.vectors("text.json").get("reject"));

		for (Object text : Json.list(reject.get("base62")))
			assertThrows(IllegalArgumentException.class, () -> Ids.fromBase62((String) text));
		for (Object text : Json.list(reject.get("base32_crockford")))
			assertThrows(IllegalArgumentException.class, () -> Ids.fromCrockford((String) text));
		for (String text : new String[] {"", " 1", "1-", "000000000000", "\u0661", "-1"}) {
			IllegalArgumentException error =
				assertThrows(IllegalArgumentException.class, () -> Ids.fromBase62(text));
			assertTrue(error.getMessage().contains("is not an ID in base62: must be 1 to 11"));
		}
		assertThrows(IllegalArgumentException.class, () -> Ids.toBase62(-1));
		assertThrows(IllegalArgumentException.class, () -> Ids.toCrockford(-1));
	}

	@Test
	public void invalidIds() {
		assertThrows(IllegalArgumentException.class, () -> Ids.decode(-1));
		Layout small = new Layout(0, 10, 1, 1, 1, 1);
		assertEquals(new Layout.Parts(Instant.ofEpochMilli(1023), 1, 1, 1), small.decode(8191));
		assertThrows(IllegalArgumentException.class, () -> small.decode(8192));
	}

	@Test
	public void invalidLayouts() {
		assertThrows(IllegalArgumentException.class, () -> new Layout(0, 41, 5, 6, 12, 1));
		assertThrows(IllegalArgumentException.class, () -> new Layout(0, 41, -1, 6, 12, 1));
		assertThrows(IllegalArgumentException.class, () -> new Layout(0, 41, 5, 5, 12, 0));
		assertThrows(IllegalArgumentException.class, () -> new Layout(0, 1, 32, 5, 12, 1));
	}

	@Test
	public void ranges() {
		assertEquals(new Layout.Range(ID >> 22 << 22, (ID >> 22) + 2 << 22).first(),
			Ids.range(TIME, TIME.plusMillis(1)).first());
		assertEquals(((ID >> 22) + 2 << 22) - 1, Ids.range(TIME, TIME.plusMillis(1)).last());
		// parts of ticks count as a whole
		assertEquals(Ids.range(TIME, TIME), Ids.range(TIME.plusNanos(1), TIME.plusNanos(999_999)));
		assertEquals(SECONDS.range(TIME, TIME), SECONDS.range(TIME.plusMillis(1),
			TIME.plusMillis(999)));
		// the ends of the layout
		assertEquals(0, Ids.range(Instant.EPOCH, TIME).first());
		assertEquals(Long.MAX_VALUE, Ids.range(TIME, Instant.parse("2500-01-01T00:00:00Z")).last());
	}

	@Test
	public void invalidRanges() {
		assertThrows(IllegalArgumentException.class, () -> Ids.range(TIME, TIME.minusNanos(1)));
		assertThrows(IllegalArgumentException.class,
			() -> Ids.range(Instant.EPOCH, Instant.EPOCH.plusSeconds(1)));
		assertThrows(IllegalArgumentException.class,
			() -> Ids.range(Instant.parse("2500-01-01T00:00:00Z"), Instant.MAX));
	}
}
