"""Values in Debezium's events, by the encoding that the source gave them.

    {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}    1767323045000000   ->   2026-01-02 03:04:05

The schema that comes with an event names the encoding of each field. Where events come without one, a value is read if
there is one way to read it, and otherwise the user has to name the encoding.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

from viewlet.changes.values import DAYS, EPOCH_DAY, MICROSECONDS, Misfit, converter
from viewlet.errors import DataError
from viewlet.types import Column, Datum, Kind, SqlType

Decode = Callable[[object], object]

_TEXT = "string"
_DECIMALS = ("Decimal", "VariableScaleDecimal")
_NANOSECONDS = {"Timestamp": 1_000_000, "MicroTimestamp": 1_000, "NanoTimestamp": 1}
_TIMES = ("Date", *_NANOSECONDS, "ZonedTimestamp", "IsoDate", "IsoTimestamp")
_EPOCH = datetime(1970, 1, 1)
_MOST_BYTES = 128
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?\s?(Z|[+-]\d\d(?::?\d\d(?::\d\d)?)?)?", re.ASCII
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?(\d\d))?(?::?(\d\d))?")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a field is encoded: the type that Connect has for it, and the last part of the name of its schema."""

    type: str
    name: str = ""
    scale: int | None = None

    @property
    def shown(self) -> str:
        return self.name or self.type


def field_encoding(field: Mapping[str, object]) -> Encoding:
    """The encoding of a field in the schema of an event."""
    name, parameters = field.get("name"), field.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, Mapping) else None
    known = int(scale) if isinstance(scale, str | int) and re.fullmatch(r"-?\d{1,3}", str(scale)) else None
    return Encoding(str(field.get("type")), str(name or "").rpartition(".")[2], known)


def named_encoding(table: str, column: Column, text: object) -> Encoding:
    """The encoding that a user names: `MicroTimestamp`, `io.debezium.time.MicroTimestamp`, `Decimal(2)`, `string`."""
    found = re.fullmatch(r"(?:[a-z.]+\.)?(\w+)(?:\((\d{1,2})\))?", text) if isinstance(text, str) else None
    kind = column.type.kind
    is_time = kind in (Kind.DATE, Kind.TIMESTAMP)
    fitting = (*_TIMES, _TEXT) if is_time else (*_DECIMALS, _TEXT) if kind is Kind.DECIMAL else _DECIMALS
    if not (is_time or column.type.is_numeric):
        raise DataError(f"{table}.{column.name}: a {column.type} has no encoding; leave it out")
    if found is None or found[1] not in fitting or (found[2] is not None and found[1] != "Decimal"):
        raise DataError(
            f"{table}.{column.name} ({column.type}): no encoding {text!r}; it is one of {', '.join(fitting)}"
        )
    if found[1] == _TEXT:
        return Encoding(_TEXT)
    scale = int(found[2]) if found[2] is not None else column.type.scale if kind is Kind.DECIMAL else None
    if found[1] == "Decimal" and scale is None:
        raise DataError(f"{table}.{column.name} ({column.type}): say the scale that the source has: 'Decimal(2)'")
    return Encoding("", found[1], scale)


def zone_of(name: str) -> tzinfo:
    """The time zone that Spark calls so."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-length if offset[1] == "-" else length)
    return UTC if name in ("Z", "UTC", "GMT", "UT", "Etc/UTC") else ZoneInfo(name)


def value_reader(column: Column, encoding: Encoding | None, zone: tzinfo) -> Callable[[object], Datum]:
    """What reads the values of a column that are encoded so; None is for events that do not say how."""
    convert, decode = converter(column.type), _decoder(column, encoding, zone)
    return convert if decode is None else lambda value: convert(decode(value))


def _decoder(column: Column, encoding: Encoding | None, zone: tzinfo) -> Decode | None:
    """Takes a value of an event to a Python value; None where they are the same."""
    type = column.type
    match type.kind:
        case Kind.BOOLEAN:
            return _boolean
        case Kind.VARCHAR:
            return None if encoding is None or encoding.type == _TEXT else _refusing(_is_not(encoding, "text"))
        case Kind.DATE | Kind.TIMESTAMP:
            return _untold_time(column, zone) if encoding is None else _time(encoding, zone)
        case _:
            return _untold_number(column) if encoding is None else _number(type, encoding)


def _is_not(encoding: Encoding, what: str) -> str:
    return f"the schema of the event says {encoding.shown}, which is not {what}"


def _refusing(reason: str) -> Decode:
    def refuse(value: object) -> object:
        raise Misfit(reason)

    return refuse


def _boolean(value: object) -> object:
    """MySQL has 0 and 1."""
    return bool(value) if type(value) is int and value in (0, 1) else value


# -- numbers --------------------------------------------------------------------------------------------------------


def _number(type: SqlType, encoding: Encoding) -> Decode | None:
    if encoding.name == "Decimal":
        scale = encoding.scale
        if scale is None:
            return _refusing("the schema of the event names no scale")
        return lambda value: _scaled(value, scale)
    if encoding.name == "VariableScaleDecimal":
        return _variable
    if encoding.type == _TEXT and type.kind is Kind.DECIMAL:
        return _text_number
    if encoding.type in (_TEXT, "bytes", "struct", "array", "map"):
        return _refusing(_is_not(encoding, "a number"))
    return None


def _untold_number(column: Column) -> Decode:
    """Without a schema: numbers are numbers; base64 names no scale, and some text could be either."""

    def read(value: object) -> object:
        if isinstance(value, Mapping):
            return _variable(value)
        if column.type.kind is Kind.DECIMAL and isinstance(value, str | bytes | bytearray):
            is_text = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
            if not is_text or _BASE64.fullmatch(str(value)):
                raise Misfit(
                    "it may be text or base64, and the event has no schema that says so: name the encoding, "
                    f"encodings={{{column.name!r}: 'string'}} or 'Decimal({column.type.scale})'"
                )
        return value

    return read


def _text_number(value: object) -> object:
    if isinstance(value, str) and _NUMBER.fullmatch(value) is None:
        raise Misfit("not a decimal number")
    return value


def _scaled(value: object, scale: int) -> Decimal:
    """Bytes of a whole number, the highest first, in base64 where the event is JSON.

    >>> _scaled("BBo=", 2)
    Decimal('10.50')
    """
    if isinstance(value, Decimal):
        return value
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise Misfit("not base64") from None
    if not isinstance(value, bytes | bytearray) or not 0 < len(value) <= _MOST_BYTES:
        raise Misfit("expected the bytes of a number")
    return Decimal(f"{int.from_bytes(value, 'big', signed=True)}E{-scale}")


def _variable(value: object) -> Decimal:
    if not isinstance(value, Mapping) or set(value) != {"scale", "value"} or type(value["scale"]) is not int:
        raise Misfit("expected a scale and a value")
    if abs(value["scale"]) > 100:
        raise Misfit("such a scale is none")
    return _scaled(value["value"], value["scale"])


# -- times ----------------------------------------------------------------------------------------------------------


def _time(encoding: Encoding, zone: tzinfo) -> Decode:
    name = encoding.name
    if name == "Date":
        return _days
    if name in _NANOSECONDS:
        return lambda value: _since_epoch(value, _NANOSECONDS[name])
    if name == "ZonedTimestamp":
        return lambda value: _moment(value, zone)
    if name in ("IsoDate", "IsoTimestamp"):
        return _iso
    if encoding.type == _TEXT and not name:
        return lambda value: _local(value, zone)
    return _refusing(_is_not(encoding, "a date or a time of one"))


def _untold_time(column: Column, zone: tzinfo) -> Decode:
    """Without a schema: whole numbers are days in a DATE; in a TIMESTAMP their unit is unknown."""
    is_date = column.type.kind is Kind.DATE

    def read(value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            if is_date:
                return _days(value)
            raise Misfit(
                "the unit is not known, because the event has no schema: name the encoding, "
                f"encodings={{{column.name!r}: 'MicroTimestamp'}}, 'Timestamp' (milliseconds) or 'NanoTimestamp'"
            )
        if isinstance(value, datetime):
            return value if value.tzinfo is None else _in_zone(value, zone)
        try:
            return _iso(value) if is_date else _local(value, zone)
        except _ZoneUnknownError as error:
            raise Misfit(
                f"{error}: name the encoding, encodings={{{column.name!r}: 'ZonedTimestamp'}} or 'IsoTimestamp'"
            ) from None

    return read


class _ZoneUnknownError(Misfit):
    """Text with a zone may be a moment, or a local time that is written as if it were one of UTC."""

    def __init__(self) -> None:
        super().__init__("it may be a moment or a local time, and the time zone of the session is not UTC")


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Misfit("expected a whole number")
    return value


def _days(value: object) -> object:
    if isinstance(value, date):
        return value
    days = _whole(value)
    if not DAYS[0] <= days <= DAYS[1]:
        raise Misfit("outside the years 1 to 9999")
    return date.fromordinal(days + EPOCH_DAY)


def _since_epoch(value: object, nanoseconds: int) -> datetime:
    if isinstance(value, datetime):
        return value
    microseconds, rest = divmod(_whole(value) * nanoseconds, 1000)
    if rest:
        raise Misfit("finer than microseconds")
    if not MICROSECONDS[0] <= microseconds <= MICROSECONDS[1]:
        raise Misfit("outside the years 1 to 9999")
    return _EPOCH + timedelta(microseconds=microseconds)


def _parsed(value: object) -> tuple[datetime, str | None]:
    """A time in ISO's form, and its zone, if it names one."""
    found = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Misfit("expected YYYY-MM-DD HH:MM:SS")
    text, fraction, zone = found.groups()
    if (fraction or "")[6:].strip("0"):
        raise Misfit("finer than microseconds")
    return datetime.fromisoformat(f"{text}.{fraction[:6]:0<6}" if fraction else text), zone


def _moment(value: object, zone: tzinfo) -> datetime:
    """As the date and time that it is in the time zone of the session, like a `timestamp` of Spark."""
    if isinstance(value, datetime):
        return value if value.tzinfo is None else _in_zone(value, zone)
    local, offset = _parsed(value)
    if offset is None:
        raise Misfit("expected a time with a zone")
    return _in_zone(local.replace(tzinfo=zone_of(offset)), zone)


def _in_zone(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _iso(value: object) -> object:
    """A local date or time; Debezium writes a Z behind it."""
    if not isinstance(value, str):
        return value
    text = value.removesuffix("Z")
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return text
    local, zone = _parsed(value)
    if zone not in (None, "Z"):
        raise Misfit("expected a local time")
    return local


def _local(value: object, zone: tzinfo) -> object:
    if not isinstance(value, str) or re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
        return value
    local, offset = _parsed(value)
    if offset is None:
        return local
    if zone != UTC:
        raise _ZoneUnknownError
    return _moment(value, zone)
