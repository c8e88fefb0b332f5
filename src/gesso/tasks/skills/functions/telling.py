"""Draws functions whose names tell what they do, as `is_even(n)` or `celsius_to_fahrenheit(c)`."""

from gesso.tasks.skills.functions.forms import Function
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

_NUMBERS = words_of("n x num number value v i a")
_TEXTS = words_of("s text string word name t st")
_LISTS = words_of("xs items numbers nums values lst data arr l")
_PAIRS = (("a", "b"), ("a", "b"), ("x", "y"), ("x", "y"), ("m", "n"), ("num1", "num2"), ("first", "second"), ("p", "q"))
_SIDES = (("width", "height"), ("length", "width"), ("w", "h"), ("a", "b"), ("base", "height"))
_OF_NUMBERS = (
    ("is_even even check_even iseven", "{p} % 2 == 0"),
    ("is_odd odd check_odd isodd", "{p} % 2 == 1"),
    ("is_positive positive", "{p} > 0"),
    ("is_negative negative", "{p} < 0"),
    ("is_zero zero", "{p} == 0"),
    ("square squared sq", "{p} * {p}"),
    ("cube cubed", "{p} * {p} * {p}"),
    ("double twice times_two", "{p} * 2"),
    ("triple times_three", "{p} * 3"),
    ("quadruple times_four", "{p} * 4"),
    ("half halve divide_by_two", "{p} / 2"),
    ("negate negated", "-{p}"),
    ("increment add_one plus_one inc", "{p} + 1"),
    ("decrement subtract_one minus_one dec", "{p} - 1"),
    ("absolute absolute_value abs_value", "abs({p})"),
    ("last_digit", "{p} % 10"),
    ("to_string to_str", "str({p})"),
    ("identity same", "{p}"),
    ("is_none", "{p} is None"),
    ("add_two plus_two", "{p} + 2"),
    ("add_five plus_five", "{p} + 5"),
    ("add_ten plus_ten", "{p} + 10"),
    ("times_ten multiply_by_ten", "{p} * 10"),
)
_OF_UNITS = (
    ("celsius_to_fahrenheit c_to_f to_fahrenheit", "c celsius temp degrees", "{p} * 9 / 5 + 32"),
    ("fahrenheit_to_celsius f_to_c to_celsius", "f fahrenheit temp degrees", "({p} - 32) * 5 / 9"),
    ("km_to_m kilometers_to_meters", "km kilometers distance", "{p} * 1000"),
    ("m_to_cm meters_to_centimeters", "m meters length", "{p} * 100"),
    ("m_to_km meters_to_kilometers", "m meters distance", "{p} / 1000"),
    ("kg_to_g kilograms_to_grams", "kg weight kilograms", "{p} * 1000"),
    ("minutes_to_seconds min_to_sec", "minutes m mins", "{p} * 60"),
    ("hours_to_minutes", "hours h", "{p} * 60"),
    ("days_to_hours", "days d", "{p} * 24"),
    ("weeks_to_days", "weeks w", "{p} * 7"),
    ("years_to_months", "years y", "{p} * 12"),
    ("hours_to_seconds", "hours h", "{p} * 3600"),
    ("cents_to_euros cents_to_dollars", "cents amount c", "{p} / 100"),
    ("dollars_to_cents euros_to_cents", "dollars amount euros", "{p} * 100"),
    ("square_area area_of_square", "side a s length", "{p} * {p}"),
    ("square_perimeter perimeter_of_square", "side a s length", "{p} * 4"),
)
_OF_TEXTS = (
    ("to_upper uppercase upper_case make_upper", "{p}.upper()"),
    ("to_lower lowercase lower_case make_lower", "{p}.lower()"),
    ("reverse reversed_text reverse_string backwards", "{p}[::-1]"),
    ("first_letter first_char first_character", "{p}[0]"),
    ("last_letter last_char last_character", "{p}[-1]"),
    ("length string_length text_length count_letters", "len({p})"),
    ("is_palindrome palindrome", "{p} == {p}[::-1]"),
    ("capitalize capitalized", "{p}.capitalize()"),
    ("title_case to_title", "{p}.title()"),
    ("strip_spaces trim strip_text", "{p}.strip()"),
    ("split_words words_of get_words", "{p}.split()"),
    ("count_words word_count number_of_words", "len({p}.split())"),
    ("to_int parse_int", "int({p})"),
    ("is_digit is_numeric only_digits", "{p}.isdigit()"),
)
_OF_LISTS = (
    ("first first_item get_first first_element", "{p}[0]"),
    ("last last_item get_last last_element", "{p}[-1]"),
    ("second second_item", "{p}[1]"),
    ("total sum_list add_all sum_all", "sum({p})"),
    ("count_items list_length number_of_items", "len({p})"),
    ("largest biggest maximum find_max max_of_list", "max({p})"),
    ("smallest minimum find_min min_of_list", "min({p})"),
    ("average mean avg", "sum({p}) / len({p})"),
    ("reverse_list reverse", "{p}[::-1]"),
    ("sort_list sorted_list sort_items", "sorted({p})"),
    ("without_first drop_first", "{p}[1:]"),
    ("without_last drop_last", "{p}[:-1]"),
)
_OF_TWO = (
    ("add plus sum_of_two add_numbers add_two_numbers", "{p} + {q}"),
    ("subtract minus difference", "{p} - {q}"),
    ("multiply times product mul", "{p} * {q}"),
    ("divide quotient div", "{p} / {q}"),
    ("floor_divide integer_division", "{p} // {q}"),
    ("remainder modulo mod", "{p} % {q}"),
    ("power to_the_power pow_of", "{p} ** {q}"),
    ("max_of_two larger bigger maximum larger_of_two", "max({p}, {q})"),
    ("min_of_two smaller minimum smaller_of_two", "min({p}, {q})"),
    ("average mean average_of_two", "({p} + {q}) / 2"),
    ("is_equal are_equal equal equals", "{p} == {q}"),
    ("is_greater is_larger greater_than", "{p} > {q}"),
    ("is_smaller is_less less_than", "{p} < {q}"),
    ("is_divisible divisible", "{p} % {q} == 0"),
    ("distance abs_diff absolute_difference", "abs({p} - {q})"),
    ("swap swapped", "({p}, {q})"),
    ("concat concatenate join_strings", "{p} + {q}"),
)
_OF_SIDES = (
    ("area rectangle_area area_of_rectangle rect_area", "{p} * {q}"),
    ("perimeter rectangle_perimeter perimeter_of_rectangle", "2 * ({p} + {q})"),
)
_NATURAL_SHARE = 0.55


def draw_telling(slots: Slots) -> tuple[dict[str, str], str]:
    """Draws a function whose name tells what it does, with the fields of a request for it."""
    rng = slots.rng
    kind = rng.choices(("numbers", "units", "texts", "lists", "two", "sides"), (0.27, 0.1, 0.17, 0.14, 0.26, 0.06))[0]
    if kind == "units":
        names, usual, code = rng.choice(_OF_UNITS)
        parameters: tuple[str, ...] = (rng.choice(usual.split()),)
    elif kind in ("two", "sides"):
        names, code = rng.choice(_OF_TWO if kind == "two" else _OF_SIDES)
        parameters = rng.choice(_PAIRS if kind == "two" else _SIDES)
    else:
        table, pool = {
            "numbers": (_OF_NUMBERS, _NUMBERS), "texts": (_OF_TEXTS, _TEXTS), "lists": (_OF_LISTS, _LISTS),
        }[kind]  # fmt: skip
        names, code = rng.choice(table)
        parameters = (rng.choice(pool),)
    name = rng.choice(names.split())
    while rng.random() > _NATURAL_SHARE or name in parameters:
        parameters = tuple(slots.identifiers(len(parameters), 1))
        if name not in parameters:
            break
    if name.startswith("swap"):
        code = "({q}, {p})"
    body = code.format(p=parameters[0], q=parameters[-1])
    function = Function(name, parameters, "", f"return {body}")
    args = ", ".join(parameters)
    return {"name": name, "head": function.head, "args": args, "plain": args}, function.source
