//! A script on a server, beside its model.

use std::collections::HashMap;
use std::fmt::Debug;

use redis::{Connection, RedisError, Script, Value, cmd};

use super::model::{Model, Stored};
use super::{Request, STEADY};

/// Takes the time from the last argument, in place of `clock.lua`.
const VIRTUAL_CLOCK: &str = "local clock = tonumber(ARGV[#ARGV])\n";

/// Reads a hash. The packed list is text, in the order of the members.
const READ: &str = "
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
    if all[i] == 'r' then
        local queue, places = cmsgpack.unpack(all[i + 1]), {}
        for at = 1, #queue, 6 do
            local place = { queue[at] }
            for n = 1, 5 do place[n + 1] = string.format('%.0f', queue[at + n]) end
            places[#places + 1] = table.concat(place, ' ')
        end
        table.sort(places)
        all[i + 1] = table.concat(places, ';')
    end
end
return all";

/// A script that takes the time from its caller, and its key.
pub(crate) struct Real {
    script: Script,
    read: Script,
    pub(crate) key: &'static str,
}

impl Real {
    /// Returns the script of `R`.
    pub(crate) fn new<R: Request>() -> Self {
        Self::with_text::<R>(R::TEXT)
    }

    /// Returns another script in place of that of `R`.
    pub(crate) fn with_text<R: Request>(text: &str) -> Self {
        let script = Script::new(&[VIRTUAL_CLOCK, STEADY, text].concat());
        Self { script, read: Script::new(READ), key: R::NAME }
    }

    /// Runs a request at `now` and compares the server with the model after the same step. `reply` is
    /// that of the model. The replies, the stored text and the life of the key must be equal.
    pub(crate) fn compare<R: Request<Reply: Debug + PartialEq>>(
        &self,
        connection: &mut Connection,
        now: i128,
        request: &R,
        reply: &R::Reply,
        model: &impl Model<R>,
    ) -> Result<(), String> {
        let mut invocation = self.script.key(self.key);
        for arg in request.args() {
            invocation.arg(arg);
        }
        // A number of the script has at most 53 bits.
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let value: Value =
            invocation.arg(now).invoke(connection).map_err(|error| error.to_string())?;
        let answer = R::parse(&value).map_err(|error| error.to_string())?;
        same("reply", &answer, reply)?;
        let stored = self.stored(connection).map_err(|error| error.to_string())?;
        same("text", &stored, &model.stored())?;
        let life: i64 =
            cmd("PTTL").arg(self.key).query(connection).map_err(|error| error.to_string())?;
        let (life, most) = (i128::from(life), model.life());
        // The life of a key goes on in real time.
        if stored.is_empty() || (most - 9_000 < life && life <= most) {
            return Ok(());
        }
        Err(format!("the life is {life} ms, and that of the model {most} ms"))
    }

    /// Reads whatever the key holds.
    fn stored(&self, connection: &mut Connection) -> Result<Stored, RedisError> {
        let key = self.key;
        let kind: String = cmd("TYPE").arg(key).query(connection)?;
        match kind.as_str() {
            "none" => Ok(Stored::new()),
            "hash" => self.read.key(key).invoke(connection),
            "zset" => {
                let mut range = cmd("ZRANGE");
                range.arg(key).arg(0).arg(-1).arg("WITHSCORES");
                let scores: HashMap<String, f64> = range.query(connection)?;
                let text = |(member, score)| (member, format!("{score:.0}"));
                Ok(scores.into_iter().map(text).collect())
            }
            _ => Ok([(String::new(), cmd("GET").arg(key).query(connection)?)].into()),
        }
    }
}

fn same<T: Debug + PartialEq>(what: &str, server: &T, model: &T) -> Result<(), String> {
    if server == model {
        return Ok(());
    }
    Err(format!("the {what} of the server is {server:?}, and that of the model {model:?}"))
}
