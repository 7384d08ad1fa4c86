use std::time::Duration;

/// The type of the message in the details of a status.
const TYPE: &[u8] = b"type.googleapis.com/google.rpc.RetryInfo";

/// Reads the delay of `google.rpc.RetryInfo` in the details of a status: the bytes of
/// `grpc-status-details-bin`, a message `google.rpc.Status`. `None` if there is none, if it is negative
/// or if the bytes are not such a message.
///
/// # Examples
///
/// ```
/// use resile_clients::grpc::retry_info;
///
/// assert_eq!(retry_info(b""), None);
/// ```
#[must_use]
pub fn retry_info(details: &[u8]) -> Option<Duration> {
    const DETAILS: u64 = 3;
    const RETRY_DELAY: u64 = 1;
    fields(details)
        .filter(|(number, _)| *number == DETAILS)
        .filter_map(|(_, any)| value_of_type(any.bytes()?))
        .find_map(|info| duration(last(info, RETRY_DELAY)?.bytes()?))
}

/// Returns the value of a message `Any`, if it has the type.
fn value_of_type(any: &[u8]) -> Option<&[u8]> {
    let is_type = last(any, 1)?.bytes()? == TYPE;
    if is_type { last(any, 2)?.bytes() } else { None }
}

/// Reads a message `Duration`. Fields of zero are left out on the wire.
fn duration(message: &[u8]) -> Option<Duration> {
    let number = |field| last(message, field).map_or(Some(0), Value::number);
    let (seconds, nanos) = (u64::try_from(number(1)?).ok()?, u32::try_from(number(2)?).ok()?);
    (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
}

/// A field of a message.
#[derive(Clone, Copy)]
enum Value<'b> {
    Number(i64),
    Bytes(&'b [u8]),
    Other,
}

impl<'b> Value<'b> {
    const fn bytes(self) -> Option<&'b [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    const fn number(self) -> Option<i64> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }
}

/// Returns the last value of a field, which counts.
fn last(message: &[u8], field: u64) -> Option<Value<'_>> {
    fields(message).filter(|(number, _)| *number == field).last().map(|(_, value)| value)
}

/// Returns the fields of a message. Ends at bytes that are not a field.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    std::iter::from_fn(move || {
        let key = varint(&mut rest)?;
        let value = match key & 7 {
            0 => Value::Number(i64::from_le_bytes(varint(&mut rest)?.to_le_bytes())),
            1 => skip(&mut rest, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (bytes, after) = rest.split_at_checked(length)?;
                rest = after;
                Value::Bytes(bytes)
            }
            5 => skip(&mut rest, 4)?,
            _ => return None,
        };
        Some((key >> 3, value))
    })
}

fn skip<'b>(rest: &mut &'b [u8], length: usize) -> Option<Value<'b>> {
    *rest = rest.get(length..)?;
    Some(Value::Other)
}

/// Reads a number of seven bits in each byte, the lowest ones first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Writes details with a delay and nothing else: a message `google.rpc.Status` with the code and the message of
/// its status, as clients compare them.
#[cfg(feature = "tonic-0_14")]
pub(super) fn written(code: i32, message: &str, delay: Duration) -> Vec<u8> {
    // A negative number is not a code. A message `Duration` has at most 315,576,000,000 seconds.
    let code = u64::try_from(code).unwrap_or_default();
    let seconds = delay.as_secs().min(315_576_000_000);
    let delay = [count(1, seconds), count(2, delay.subsec_nanos().into())].concat();
    let any = [nested(1, TYPE), nested(2, &nested(1, &delay))].concat();
    [count(1, code), nested(2, message.as_bytes()), nested(3, &any)].concat()
}

/// Writes a field that is a number. One of zero is left out on the wire.
#[cfg(feature = "tonic-0_14")]
fn count(field: u8, number: u64) -> Vec<u8> {
    if number == 0 { Vec::new() } else { [vec![field << 3], written_varint(number)].concat() }
}

/// Writes a field that is a text or a message.
#[cfg(feature = "tonic-0_14")]
fn nested(field: u8, value: &[u8]) -> Vec<u8> {
    let length = written_varint(u64::try_from(value.len()).unwrap_or(u64::MAX));
    [&[field << 3 | 2], &*length, value].concat()
}

/// Writes a number as [`varint`] reads it.
#[cfg(feature = "tonic-0_14")]
fn written_varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
