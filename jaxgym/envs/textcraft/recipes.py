"""World of TextCraft: the items that are gathered, and the recipes of those that are crafted.

A line `4 ash planks: 1 ash log` makes four ash planks from one ash log. An input may be a tag instead of an item, such
as `planks`: any one item whose name ends with that word. The headings are kinds of items, which share a shape.
"""

TAGS = (
    "log",
    "planks",
    "yarn",
    "cloth",
    "dye",
    "ink",
    "grain",
    "flour",
    "herb",
    "fish",
    "stone",
    "oil",
    "glass",
    "brick",
)
"""Words that an input may name instead of an item."""

GATHERED = """
[log]
ash log, elm log, cedar log, larch log, walnut log
[plant]
willow twig, tan bark, pine resin, oak gall, flax, hemp, straw, reed, kelp, madder root, woad leaf, weld flower
tea leaf, hops, rape seed, mustard seed, wheat grain, barley grain, oat grain, mint herb, thyme herb, sage herb
[beast]
raw wool, silk cocoon, hide, feather, horn, bone, honeycomb, milk, egg, river fish, lake fish, sea fish
[produce]
apple, plum, grape, olive, carrot, onion, cabbage, mushroom, sugar beet
[earth]
river clay, kaolin, quartz sand, chalk, limestone, flint, peat, salt, water, amber, garnet
granite stone, slate stone, basalt stone, copper ore, tin ore, iron ore, silver ore, lead ore, zinc ore, cobalt ore
"""
"""Gathered items, by kind."""

CRAFTED = """
[timber]
4 ash planks: 1 ash log
4 elm planks: 1 elm log
4 cedar planks: 1 cedar log
4 larch planks: 1 larch log
4 walnut planks: 1 walnut log
4 wooden pole: 1 log
8 cedar shingle: 1 cedar planks
4 barrel stave: 2 elm planks
8 wooden peg: 1 ash planks
1 picture frame: 3 walnut planks
1 willow hurdle: 4 wooden pole, 6 willow twig
1 larch gate: 4 larch planks, 2 wooden pole
1 thatch bundle: 4 straw, 1 yarn
[powder]
3 charcoal: 2 log
4 charcoal: 1 log, 2 peat
1 potash: 1 log, 1 water
1 soda ash: 3 kelp, 1 peat
2 chalk powder: 1 chalk
2 quicklime: 2 limestone, 1 peat
2 lime mortar: 1 quicklime, 2 quartz sand, 1 water
2 wall plaster: 1 quicklime, 1 chalk powder, 1 water
1 pine tar: 2 pine resin, 1 peat
1 bone glue: 2 bone, 1 water
1 varnish: 2 pine resin, 1 rape seed
2 beet sugar: 3 sugar beet
1 red dye: 2 madder root, 1 water
1 blue dye: 2 woad leaf, 1 water
1 yellow dye: 2 weld flower, 1 water
1 green dye: 1 blue dye, 1 yellow dye
1 black ink: 1 oak gall, 1 water
1 red ink: 1 red dye, 1 oak gall
1 blue ink: 1 blue dye, 1 oak gall
1 plain soap: 1 potash, 2 oil
1 sage soap: 1 plain soap, 2 sage herb
1 sealing wax: 1 beeswax, 1 red dye
1 beeswax: 1 honeycomb
[yarn]
2 flax yarn: 2 flax
2 hemp yarn: 2 hemp
2 wool yarn: 2 raw wool
1 silk yarn: 3 silk cocoon
1 hemp rope: 3 hemp yarn
1 hemp rope: 6 hemp, 1 pine tar
1 fishing net: 6 yarn
1 rawhide strap: 1 hide
1 string of beads: 4 glass bead, 1 yarn
2 candle: 1 beeswax, 1 yarn
2 candle: 2 honeycomb, 1 flax
1 rope ladder: 3 hemp rope, 5 wooden pole
1 hammock: 1 fishing net, 2 hemp rope
[cloth]
1 linen cloth: 4 flax yarn
1 wool cloth: 4 wool yarn
1 silk cloth: 4 silk yarn
1 hemp canvas: 4 hemp yarn
1 felt sheet: 4 raw wool, 1 water
1 felt sheet: 2 wool yarn, 1 plain soap
1 leather: 1 hide, 2 tan bark
1 parchment: 1 hide, 1 chalk
1 reed mat: 4 reed
1 grain sack: 1 hemp canvas, 1 hemp yarn
1 banner: 1 cloth, 1 dye, 1 wooden pole
1 curtain: 2 linen cloth, 1 yellow dye
1 quilt: 3 linen cloth, 2 raw wool
1 rug: 2 wool cloth, 1 red dye, 1 wool yarn
1 sail: 4 hemp canvas, 1 hemp rope
1 tent: 3 hemp canvas, 3 wooden pole, 1 hemp rope
1 tapestry: 2 wool cloth, 1 red dye, 1 green dye
[garment]
1 straw hat: 4 straw
1 felt hat: 2 felt sheet, 1 feather
1 leather belt: 1 leather, 1 horn
1 leather gloves: 1 leather, 1 flax yarn
1 leather boots: 2 leather, 1 hemp yarn
1 leather apron: 2 leather, 2 rawhide strap
1 linen shirt: 2 linen cloth, 1 flax yarn
1 wool cloak: 3 wool cloth, 1 horn
1 silk scarf: 1 silk cloth, 1 dye
1 knit cap: 3 wool yarn
1 knit socks: 2 wool yarn, 1 bone
1 embroidered shirt: 1 linen shirt, 2 silk yarn, 1 steel needle
1 brass button coat: 3 wool cloth, 4 brass button, 1 steel needle
[bar]
1 copper bar: 2 copper ore, 1 peat
1 copper bar: 2 copper ore, 1 charcoal
1 tin bar: 2 tin ore, 1 peat
1 iron bar: 2 iron ore, 2 peat
2 iron bar: 3 iron ore, 1 charcoal
1 silver bar: 2 silver ore, 1 peat
1 lead bar: 2 lead ore, 1 peat
1 zinc bar: 2 zinc ore, 1 peat
4 bronze bar: 3 copper bar, 1 tin bar
3 brass bar: 2 copper bar, 1 zinc bar
4 pewter bar: 3 tin bar, 1 lead bar
2 steel bar: 2 iron bar, 1 charcoal
[part]
8 iron nail: 1 iron bar
1 iron plate: 2 iron bar
1 iron chain: 3 iron bar
2 iron hoop: 1 iron bar
4 iron hook: 1 iron bar
3 copper wire: 1 copper bar
3 silver wire: 1 silver bar
2 tin plate: 1 tin bar
4 lead weight: 1 lead bar
2 brass gear: 1 brass bar
2 brass tube: 1 brass bar
6 brass button: 1 brass bar
1 steel blade: 1 steel bar
4 steel needle: 1 steel bar
2 steel spring: 1 steel bar, 1 oil
2 door hinge: 1 iron plate, 2 iron nail
1 door lock: 1 iron plate, 1 brass gear, 1 steel spring
1 cart wheel: 2 elm planks, 6 wooden pole, 1 iron hoop
[jewel]
2 amber bead: 1 amber
1 cut garnet: 1 garnet, 1 quartz sand
1 amber necklace: 3 amber bead, 1 yarn
2 silver ring: 1 silver bar
1 garnet ring: 1 cut garnet, 1 silver ring
1 silver chain: 3 silver wire
1 silver brooch: 2 silver wire, 1 amber bead
1 silver crown: 3 silver bar, 4 cut garnet
8 glass bead: 1 glass, 1 dye
[pot]
2 wet clay: 2 river clay, 1 water
2 porcelain paste: 2 kaolin, 1 quartz sand, 1 water
1 clay jar: 3 wet clay, 1 peat
2 clay bowl: 1 wet clay, 1 peat
1 clay pipe: 1 wet clay, 1 charcoal
2 porcelain cup: 1 porcelain paste, 1 charcoal
1 porcelain vase: 2 porcelain paste, 1 charcoal
1 painted vase: 1 porcelain vase, 1 blue dye
1 glazed jar: 1 clay jar, 1 quartz sand, 1 soda ash
1 horn cup: 1 horn
1 iron pot: 4 iron bar
1 copper kettle: 3 copper bar, 1 horn
1 copper pan: 2 copper bar, 1 wooden pole
1 pewter mug: 2 pewter bar
1 pewter dish: 1 pewter bar
1 tea set: 1 copper kettle, 4 porcelain cup, 1 silver spoon
[masonry]
2 mud brick: 2 river clay, 1 straw
2 red brick: 2 wet clay, 1 peat
2 white brick: 2 porcelain paste, 1 charcoal
3 roof tile: 1 wet clay, 1 peat
3 stone slab: 2 stone
2 cobble: 1 stone, 1 flint
1 millstone: 4 granite stone
2 slate shingle: 1 slate stone
1 stone bench: 3 stone slab
1 hearth: 4 stone slab, 1 iron chain
1 brick wall: 4 brick, 1 lime mortar
1 stone wall: 4 cobble, 1 lime mortar
1 plastered wall: 1 brick wall, 2 wall plaster
1 clay oven: 6 mud brick, 2 stone slab
1 glass kiln: 6 white brick, 2 lime mortar, 1 iron plate
1 tiled roof: 6 roof tile, 4 wooden pole
1 thatched roof: 4 thatch bundle, 4 wooden pole
1 well: 6 cobble, 1 hemp rope, 1 stave bucket
1 bread oven: 1 clay oven, 1 tiled roof
[glass]
2 clear glass: 3 quartz sand, 1 soda ash
2 green glass: 3 quartz sand, 1 soda ash, 1 copper ore
2 blue glass: 3 quartz sand, 1 soda ash, 1 cobalt ore
2 clear glass: 3 quartz sand, 1 potash, 1 chalk
1 window pane: 2 glass
2 glass bottle: 1 green glass
1 glass bowl: 1 blue glass
2 lens: 1 clear glass, 1 quartz sand
1 mirror: 1 clear glass, 1 silver bar
1 stained window: 1 clear glass, 1 green glass, 1 blue glass, 1 lead bar
[dough]
2 wheat flour: 2 wheat grain
2 barley flour: 2 barley grain
2 oat flour: 2 oat grain
1 malt: 2 barley grain, 1 water
1 butter: 3 milk
1 cream: 2 milk
1 cheese curd: 3 milk, 1 salt
1 bread dough: 2 flour, 1 water
1 pastry dough: 1 wheat flour, 1 butter
1 honey dough: 1 flour, 1 honey, 1 egg
1 noodle dough: 2 wheat flour, 1 egg
1 herb butter: 1 butter, 1 herb
1 honey: 1 honeycomb, 1 water
[drink]
1 apple juice: 3 apple
1 plum juice: 3 plum
1 grape juice: 3 grape
1 mint tea: 1 mint herb, 1 water
1 black tea: 2 tea leaf, 1 water
1 milk tea: 1 black tea, 1 cream
1 seed oil: 4 rape seed
1 olive oil: 4 olive
1 cider: 2 apple juice
1 mead: 2 honey, 2 water
1 wine: 2 grape juice
1 ale: 2 malt, 1 hops, 1 water
1 vinegar: 1 cider
1 vinegar: 1 wine
1 bottled wine: 1 wine, 1 glass bottle, 1 sealing wax
1 bottled cider: 1 cider, 1 glass bottle
1 mulled wine: 1 wine, 1 honey, 1 plum
[dish]
1 salted fillet: 1 fish, 2 salt
1 grilled fillet: 1 fish, 1 charcoal
1 vegetable broth: 1 carrot, 1 onion, 1 water
1 salted cabbage: 2 cabbage, 1 salt
1 dried mushroom: 3 mushroom
1 mushroom soup: 1 dried mushroom, 1 cream
1 fish soup: 1 fish, 1 vegetable broth
1 plum jam: 3 plum, 1 beet sugar
1 apple jam: 3 apple, 1 beet sugar
1 oat porridge: 1 oat flour, 1 milk
1 gruel: 2 grain, 1 water
1 roast onion: 2 onion, 1 oil
1 omelette: 2 egg, 1 butter, 1 mushroom
1 cheese wheel: 3 cheese curd, 1 salt
1 bread loaf: 1 bread dough, 1 charcoal
3 oat cracker: 1 oat flour, 1 water, 1 salt
1 apple pie: 1 pastry dough, 2 apple, 1 beet sugar
1 plum tart: 1 pastry dough, 1 plum jam
1 fish pie: 1 pastry dough, 1 fish, 1 onion
4 honey biscuit: 1 honey dough, 1 charcoal
1 noodle soup: 1 noodle dough, 1 vegetable broth
1 mushroom dumpling: 1 noodle dough, 1 dried mushroom
1 pickled carrot: 3 carrot, 1 vinegar
1 mustard: 2 mustard seed, 1 vinegar
1 mustard fillet: 1 grilled fillet, 1 mustard
1 herb bread: 1 bread loaf, 1 herb butter
1 toasted cheese: 1 bread loaf, 1 cheese wheel
1 honey cake: 1 honey dough, 1 cream, 1 plum jam
1 picnic: 1 wicker basket, 1 toasted cheese, 1 bottled cider
1 feast: 1 fish pie, 1 herb bread, 1 bottled wine, 1 honey cake
[tool]
1 flint blade: 1 flint
1 whetstone: 1 slate stone, 1 quartz sand
1 broom: 1 wooden pole, 4 straw
1 mallet: 1 log, 1 wooden pole
1 hay rake: 1 planks, 2 wooden pole
1 fishing rod: 1 wooden pole, 1 yarn, 1 iron hook
1 flint knife: 1 flint blade, 1 wooden pole
1 flint axe: 2 flint blade, 1 wooden pole, 1 rawhide strap
2 wooden spoon: 1 planks
2 silver spoon: 1 silver bar
1 quern: 1 millstone, 1 wooden pole
1 drop spindle: 1 wooden pole, 1 horn
1 weaving loom: 4 planks, 6 wooden pole, 4 wooden peg
1 iron hammer: 1 iron plate, 1 wooden pole
1 iron shovel: 1 iron plate, 2 wooden pole
1 iron plough: 3 iron plate, 2 ash planks
1 anvil: 5 iron plate
1 bronze chisel: 1 bronze bar, 1 wooden pole
1 steel file: 1 steel bar, 1 wooden pole
1 hand saw: 1 steel blade, 1 planks
1 steel knife: 1 steel blade, 1 horn
1 steel sickle: 1 steel blade, 1 wooden pole
1 steel axe: 2 steel blade, 1 ash planks
1 shears: 2 steel blade, 1 steel spring
1 wood plane: 1 steel blade, 2 walnut planks, 1 wooden peg
1 sewing kit: 2 steel needle, 1 shears, 4 yarn
1 tool chest: 1 wooden chest, 1 hand saw, 1 iron hammer, 1 bronze chisel
[device]
1 sundial: 1 stone slab, 1 copper bar
1 beam scale: 2 tin plate, 4 lead weight, 1 wooden pole
1 lantern: 1 candle, 2 clear glass, 1 tin plate
1 oil lamp: 1 clay bowl, 1 oil, 1 yarn
1 magnifier: 1 lens, 1 horn
1 spectacles: 2 lens, 3 copper wire
1 telescope: 2 lens, 1 brass tube
1 table clock: 3 brass gear, 1 steel spring, 1 planks
1 tower clock: 1 table clock, 1 bronze bell, 4 brass gear
1 signal lamp: 1 oil lamp, 1 mirror, 1 lens
1 lighthouse: 3 plastered wall, 1 signal lamp, 1 rope ladder
1 pulley: 1 brass gear, 1 iron hook, 1 hemp rope
1 printing press: 1 work table, 2 steel spring, 6 lead weight
[instrument]
1 reed flute: 3 reed
1 bone flute: 2 bone, 1 flint blade
1 willow whistle: 1 willow twig, 1 flint blade
1 hand drum: 2 planks, 1 rawhide strap
1 horn trumpet: 2 horn, 1 copper bar
1 lute: 3 cedar planks, 3 silk yarn, 1 bone glue
1 fiddle: 2 walnut planks, 4 silk yarn, 1 varnish
1 harp: 3 elm planks, 6 copper wire
1 bronze bell: 4 bronze bar
1 bronze gong: 5 bronze bar, 1 mallet
1 music box: 2 brass gear, 1 steel spring, 1 walnut planks
1 bagpipe: 1 waterskin, 2 reed flute
[furniture]
1 stool: 2 planks, 3 wooden pole
1 work table: 4 planks, 8 iron nail
1 chair: 3 planks, 4 wooden peg
1 bed frame: 5 planks, 1 hemp rope
1 bed: 1 bed frame, 1 quilt, 1 straw
1 cradle: 3 planks, 1 wool cloth
1 cupboard: 6 planks, 4 iron nail, 2 door hinge
1 larch door: 4 larch planks, 2 door hinge
1 locked door: 1 larch door, 1 door lock
1 bookshelf: 5 planks, 3 book
1 writing desk: 1 work table, 1 picture frame, 1 ink
1 armchair: 1 chair, 1 quilt
1 wall mirror: 1 mirror, 1 picture frame
1 spinning wheel: 1 cart wheel, 1 drop spindle, 2 planks
1 reading room: 1 bookshelf, 1 armchair, 1 lantern, 1 rug
[container]
1 wicker basket: 6 willow twig
1 crate: 5 planks
1 wooden chest: 6 planks, 2 iron hoop
1 strongbox: 1 wooden chest, 1 door lock, 2 iron plate
1 stave bucket: 3 barrel stave, 1 iron hoop
1 barrel: 6 barrel stave, 2 iron hoop
1 wine barrel: 1 barrel, 6 wine
1 waterskin: 2 leather, 1 beeswax
1 leather pouch: 1 leather, 1 yarn
1 quiver: 1 leather, 2 rawhide strap, 1 feather
1 saddle: 3 leather, 1 felt sheet, 1 iron hoop
1 beehive: 4 straw, 2 cedar shingle
[writing]
1 quill: 2 feather, 1 flint
2 rag pulp: 3 hemp, 1 water
2 paper: 1 rag pulp
2 paper: 1 linen cloth, 1 water
1 book: 3 paper, 1 leather, 1 yarn
1 letter: 1 paper, 1 ink, 1 quill
1 sealed letter: 1 letter, 1 sealing wax
1 sea chart: 1 parchment, 1 ink, 1 quill
1 painting: 1 linen cloth, 1 picture frame, 2 dye
1 printed book: 1 book, 1 printing press, 2 black ink
1 almanac: 1 book, 1 sundial
[craft]
1 reed boat: 8 reed, 2 hemp yarn
1 raft: 6 log, 2 hemp rope
2 paddle: 1 ash planks
1 dugout: 3 log, 1 flint axe
1 canoe: 5 cedar planks, 1 pine tar, 2 paddle
1 rowing boat: 6 planks, 8 iron nail, 2 paddle
1 fishing boat: 1 rowing boat, 1 fishing net
1 sailing boat: 1 rowing boat, 1 sail, 2 wooden pole
1 survey ship: 1 sailing boat, 1 telescope, 1 sea chart
1 handcart: 4 planks, 1 cart wheel
1 ox cart: 6 planks, 2 cart wheel, 1 iron chain
1 covered wagon: 1 ox cart, 2 hemp canvas, 3 wooden pole
1 sledge: 3 ash planks, 2 iron hoop
[building]
1 shed: 8 planks, 1 thatched roof
1 cottage: 2 plastered wall, 1 thatched roof, 1 larch door
1 greenhouse: 6 window pane, 4 cedar planks, 8 iron nail
1 smithy: 2 stone wall, 1 anvil, 1 hearth, 1 tiled roof
1 bakery: 1 bread oven, 2 plastered wall, 1 work table
1 windmill: 2 stone wall, 1 quern, 1 sail, 2 brass gear
1 chapel: 2 stone wall, 2 stained window, 1 bronze bell
"""
"""Recipes, by kind of the crafted item."""
