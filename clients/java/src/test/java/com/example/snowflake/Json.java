// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes as much of JSON as the tests need: Map, List, String, Long or Double, Boolean, null.
 * The texts are the project's own, so an error only has the position. */
public final class Json {
	private final String text;
	private int at;

	private Json(String text) {
		this.text = text;
	}

	public static Object read(String text) {
		Json json = new Json(text);
		Object value = json.value();

		if (json.peek() != 0)
			throw json.wrong();
		return value;
	}

	@SuppressWarnings("unchecked")
	public static Map<String, Object> object(Object value) {
		return (Map<String, Object>) value;
	}

	@SuppressWarnings("unchecked")
	public static List<Object> list(Object value) {
		return (List<Object>) value;
	}

	/** Writes a Map, an Iterable, a Number, a Boolean or null; for any other object, its toString(). */
	public static String write(Object value) {
		StringBuilder out = new StringBuilder();

		write(value, out);
		return out.toString();
	}

	private static void write(Object value, StringBuilder out) {
		if (value instanceof Map<?, ?> map) {
			char before = '{';
			for (Map.Entry<?, ?> entry : map.entrySet()) {
				quote(entry.getKey().toString(), out.append(before));
				write(entry.getValue(), out.append(':'));
				before = ',';
			}
			out.append(map.isEmpty() ? "{}" : "}");
		} else if (value instanceof Iterable<?> list) {
			out.append('[');
			for (Object element : list) {
				write(element, out);
				out.append(',');
			}
			if (out.charAt(out.length() - 1) == ',')
				out.setLength(out.length() - 1);
			out.append(']');
		} else if (value == null || value instanceof Number || value instanceof Boolean) {
			out.append(value);
		} else {
			quote(value.toString(), out);
		}
	}

	private static void quote(String text, StringBuilder out) {
		out.append('"');
		for (char letter : text.toCharArray()) {
			if (letter == '"' || letter == '\\')
				out.append('\\').append(letter);
			else if (letter < ' ')
				out.append(String.format("\\u%04x", (int) letter));
			else
				out.append(letter);
		}
		out.append('"');
	}

	private Object value() {
		switch (peek()) {
		case '{':
			return readObject();
		case '[':
			return readList();
		case '"':
			return string();
		default:
			return word();
		}
	}

	private Map<String, Object> readObject() {
		Map<String, Object> map = new LinkedHashMap<>();

		for (next('{'); peek() != '}';) {
			String key = string();
			next(':');
			map.put(key, value());
			if (peek() != '}')
				next(',');
		}
		next('}');
		return map;
	}

	private List<Object> readList() {
		List<Object> list = new ArrayList<>();

		for (next('['); peek() != ']';) {
			list.add(value());
			if (peek() != ']')
				next(',');
		}
		next(']');
		return list;
	}

	private String string() {
		StringBuilder out = new StringBuilder();

		for (next('"'); text.charAt(at) != '"'; at++)
			out.append(text.charAt(at) == '\\' ? escaped() : text.charAt(at));
		at++;
		return out.toString();
	}

	private char escaped() {
		char letter = text.charAt(++at);

		if (letter == 'u') {
			at += 4;
			return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
		}
		int known = "nrtbf".indexOf(letter);
		return known < 0 ? letter : "\n\r\t\b\f".charAt(known);
	}

	private Object word() {
		int start = at;

		while (at < text.length() && "+-.".indexOf(text.charAt(at)) >= 0
				|| at < text.length() && Character.isLetterOrDigit(text.charAt(at)))
			at++;
		String word = text.substring(start, at);
		switch (word) {
		case "true":
		case "false":
			return Boolean.valueOf(word);
		case "null":
			return null;
		default:
			if (word.isEmpty())
				throw wrong();
			return word.matches("-?\\d+") ? (Object) Long.valueOf(word) : Double.valueOf(word);
		}
	}

	/** Returns the next character after spaces; 0: the end. */
	private char peek() {
		while (at < text.length() && Character.isWhitespace(text.charAt(at)))
			at++;
		return at < text.length() ? text.charAt(at) : 0;
	}

	private void next(char expected) {
		if (peek() != expected)
			throw wrong();
		at++;
	}

	private IllegalArgumentException wrong() {
		return new IllegalArgumentException("no JSON at " + at + " of: " + text);
	}
}
