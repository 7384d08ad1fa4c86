//! The normal form of a code.

/// The largest number of letters and digits in a code. Longer codes are prose.
pub(crate) const LONGEST: usize = 64;

/// Returns the letters and digits of `code` in lower case. AWS's additions
/// (`com.amazon#Name:http://…`) and a final `Error` or `Exception` are removed. Returns `None` if
/// nothing is left or `code` is prose.
pub(crate) fn normalize<'b>(code: &str, buffer: &'b mut [u8; LONGEST]) -> Option<&'b str> {
    // Few codes have one of these, and compilers turn this test into vector instructions.
    let has_parts = code.bytes().fold(false, |any, byte| any | matches!(byte, b'#' | b':'));
    let code = if has_parts { code.rsplit('#').next()?.split(":http").next()? } else { code };
    if code.len() > 2 * LONGEST || code.len() > 32 && code.contains(' ') {
        return None;
    }
    let mut length = 0;
    for byte in code.bytes().filter(u8::is_ascii_alphanumeric) {
        *buffer.get_mut(length)? = byte.to_ascii_lowercase();
        length += 1;
    }
    let name = std::str::from_utf8(buffer.get(..length)?).ok()?;
    let name = name.strip_suffix("exception").unwrap_or(name);
    let name = name.strip_suffix("error").unwrap_or(name);
    (!name.is_empty()).then_some(name)
}
