//! Texts and bytes: numbers at the ends of their types, names just too long, odd Unicode, and good texts with damage.

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Numbers that overflow something, or are none.
const NUMBERS: [&str; 18] = [
    "0",
    "-0",
    "-1",
    "+1",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e999",
    "-1e-999",
    "0x7fffffffffffffff",
    "1_000",
    "NaN",
    "inf",
    "٣",
];
const QUANTITIES: [&str; 14] = [
    "1e999",
    "-1e999",
    "1e2147483647",
    "1e-2147483648",
    "1e2147483648",
    "9223372036854775807Ei",
    "-9223372036854775807E",
    "9223372036854775807m",
    "0.00000000000000000000000000000000000000001",
    "1n",
    "1E",
    "1e",
    ".",
    "8Ei",
];
const DURATIONS: [&str; 16] = [
    "9223372036854775807s",
    "-9223372036854775808s",
    "9223372036854775808s",
    "9223372036854775807h",
    "2562047h47m16.854775807s",
    "2562047h47m16.854775808s",
    "99999999999999999999999999y",
    "0.00000000000000000000000001s",
    "1e999s",
    "-1s",
    "-0s",
    "0",
    "P9999999Y",
    "PT9223372036854775807S",
    "1h1h1h",
    "1m30s",
];
const TIMES: [&str; 10] = [
    "9999-12-31T23:59:59Z",
    "9999-12-30T22:00:00.999999999Z",
    "-009999-01-02T01:59:59Z",
    "0001-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "2026-02-30T00:00:00Z",
    "+292278994-08-17T07:12:55.807Z",
    "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00Z[Europe/Berlin]",
];
/// Words that mean something to some reader.
const WORDS: [&str; 24] = [
    "true",
    "false",
    "True",
    "null",
    "~",
    "never",
    "-",
    "/",
    "*",
    "In",
    "NotIn",
    "Exists",
    "Gt",
    "NoSchedule",
    "Always",
    "Running",
    "10.0.0.1",
    "fd00::1",
    "::ffff:10.0.0.1/104",
    "https://a:6443",
    "node/uid/1",
    "a,b,,c",
    "{\"cpu\":\"1\"}",
    "[{\"nodes\":9223372036854775807,\"free\":{\"cpu\":\"9223372036854775807\"}}]",
];
/// No character, the first and last of their kinds, marks that change their neighbours, and some that grow in lower
/// case.
const ODD: [char; 20] = [
    '\0',
    '\t',
    '\n',
    '\r',
    '\u{1b}',
    '\u{7f}',
    '\u{80}',
    '\u{85}',
    '\u{a0}',
    '\u{301}',
    '\u{200d}',
    '\u{2028}',
    '\u{202e}',
    '\u{feff}',
    '\u{fffd}',
    '\u{10ffff}',
    'İ',
    'ß',
    '🦀',
    '"',
];
/// Lengths on both sides of the limits that there are.
const LENGTHS: [usize; 16] = [
    62, 63, 64, 253, 254, 317, 318, 512, 1024, 1025, 4097, 8192, 8193, 65_537, 262_144, 262_145,
];

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    select(texts).prop_map(str::to_owned)
}

/// A number, or nearly.
pub fn number() -> BoxedStrategy<String> {
    prop_oneof![
        3 => one_of(&NUMBERS),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<u128>().prop_map(|number| number.to_string()),
        1 => "[-+]?[0-9]{0,40}(\\.[0-9]{0,40})?",
    ]
    .boxed()
}

/// An amount, or nearly.
pub fn quantity() -> BoxedStrategy<String> {
    prop_oneof![
        2 => one_of(&QUANTITIES),
        1 => number(),
        2 => "[-+]?[0-9.]{0,40}([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,12})?",
    ]
    .boxed()
}

/// A time that passes, or nearly.
pub fn duration() -> BoxedStrategy<String> {
    prop_oneof![
        2 => one_of(&DURATIONS),
        1 => (number(), "(ns|us|µs|ms|s|m|h|d|w|y)?").prop_map(|(number, unit)| number + &unit),
        2 => "-?([0-9.]{0,22}(h|m|s|ms|ns)?){0,4}",
    ]
    .boxed()
}

/// A moment, or nearly.
pub fn time() -> BoxedStrategy<String> {
    prop_oneof![
        3 => one_of(&TIMES),
        1 => "-?[0-9]{1,6}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})?",
    ]
    .boxed()
}

/// A text of characters that few programs expect.
pub fn odd() -> BoxedStrategy<String> {
    prop::collection::vec(select(&ODD[..]), 0..40)
        .prop_map(|chars| chars.into_iter().collect())
        .boxed()
}

/// A text that is just short enough for something, or just too long.
pub fn long() -> BoxedStrategy<String> {
    let piece = prop_oneof![
        4 => one_of(&["x", "é", "a,", "a.", "-", "[", "{\"", "0", "\n", "9", "a=b,", "../"]),
        1 => any::<char>().prop_map(|it| it.to_string()),
    ];
    (piece, select(&LENGTHS[..]))
        .prop_map(|(piece, bytes)| {
            let mut text = piece.repeat(bytes / piece.len());
            // To the byte, whatever the piece.
            text.extend(std::iter::repeat_n('x', bytes - text.len()));
            text
        })
        .boxed()
}

/// Any text, often one that means something, or too much.
pub fn text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => any::<String>(),
        4 => one_of(&WORDS),
        3 => "[a-z0-9./_-]{0,12}",
        2 => odd(),
        2 => number(),
        2 => quantity(),
        2 => duration(),
        2 => time(),
        1 => long(),
    ]
    .boxed()
}

/// Any bytes.
pub fn bytes() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..300),
        1 => text().prop_map(String::into_bytes),
    ]
    .boxed()
}

/// A good text with a piece of it replaced or taken out, or twice there.
pub fn damaged(whole: impl Strategy<Value = String> + 'static) -> BoxedStrategy<Vec<u8>> {
    let damage = prop_oneof![
        2 => bytes().prop_map(Some),
        1 => Just(None),
    ];
    (whole, any::<Index>(), any::<Index>(), damage)
        .prop_map(|(whole, one, two, damage)| {
            let whole = whole.into_bytes();
            let (one, two) = (one.index(whole.len() + 1), two.index(whole.len() + 1));
            let (start, end) = (one.min(two), one.max(two));
            let middle = damage.unwrap_or_else(|| whole[start..end].repeat(2));
            [&whole[..start], &middle, &whole[end..]].concat()
        })
        .boxed()
}
